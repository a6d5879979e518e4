# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The location of blobs, a container and a folder in it, and the names that azcopy can transfer from a list of files.

A name that it cannot transfer is refused, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

_CONTAINER = re.compile(r"\$(root|web|logs)|[a-z0-9](-?[a-z0-9]){2,62}")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SIG = re.compile(r"(sig=)[^&\s\"'\\]*", re.IGNORECASE)


class LocationError(ValueError):
    """This is not the URL of a container or folder; the message shows a valid one."""


@dataclass(frozen=True)
class BlobLocation:
    """A container of blobs and a folder in it.

    :ivar url: the container's, without a slash at its end: ``https://ACCOUNT.blob.core.windows.net/CONTAINER``.
    :ivar prefix: the folder, ending with a slash; empty for the whole container. Names are relative to it.
    """

    url: str
    prefix: str = ""

    @property
    def host(self) -> str:
        """The name or address of the account's server."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int | None:
        """The server's port, if the URL has one."""
        return urlsplit(self.url).port

    @property
    def address(self) -> str:
        """The URL of the folder, with its name percent-encoded."""
        return f"{self.url}/{quote(self.prefix)}" if self.prefix else self.url

    def below(self, folder: str) -> BlobLocation:
        """Return the location of a folder in this one.

        :raises LocationError: it is not a valid folder name.
        """
        return BlobLocation(self.url, self.prefix + _prefix(folder))


def parse_location(url: str, prefix: str = "") -> BlobLocation:
    """Return the location at ``url``: a container, or a folder in one.

    :param prefix: a folder below it.
    :raises LocationError: the URL is invalid. The message contains no secret.
    """
    split = urlsplit(url)
    shown = redacted(url.partition("?")[0])
    if split.query or split.fragment or split.username or "@" in split.netloc:
        raise LocationError(
            f"{shown} has a query, a fragment or a password: a URL must not contain a SAS. Store the SAS in a file "
            "with mode 0600 (--sas-file)."
        )
    if split.scheme != "https" and not (split.scheme == "http" and split.hostname in _LOOPBACK):
        raise LocationError(
            f"{shown}: the URL of a container must start with https:// (http is allowed for this machine only)."
        )
    # If the host is an IP address, the path has the account, as with Azurite: http://127.0.0.1:10000/ACCOUNT/CONTAINER
    folders = [folder for folder in split.path.split("/") if folder]
    in_path = 1 if re.fullmatch(r"[\d.]+|.*:.*|localhost", split.hostname or "") else 0
    if not split.hostname or len(folders) <= in_path or not _CONTAINER.fullmatch(folders[in_path]):
        raise LocationError(
            f"{shown} names no container: expected https://ACCOUNT.blob.core.windows.net/CONTAINER[/FOLDER]."
        )
    base = f"{split.scheme}://{split.netloc}/{'/'.join(folders[: in_path + 1])}"
    return BlobLocation(base, _prefix("/".join(folders[in_path + 1 :])) + _prefix(prefix))


def _prefix(folder: str) -> str:
    names = [name for name in folder.split("/") if name]
    if any(name in (".", "..") or not name.isprintable() or "\\" in name for name in names):
        raise LocationError(
            f"{folder!r} is not a valid folder in a container: '.', '..', '\\' and control characters are not allowed."
        )
    return "/".join(names) + "/" if names else ""


def redacted(text: str) -> str:
    """Return the text without the signature of a SAS."""
    return _SIG.sub(r"\1-REDACTED-", text)


_LONGEST_COMPONENT = 255
_LONGEST_NAME = 1024


class NameRefused(ValueError):
    """azcopy or a file system cannot handle the name of a blob; the message names it and says why."""


def check_names(names: Iterable[str]) -> None:
    """Check that azcopy can transfer all these names.

    :raises NameRefused: it cannot transfer one.
    """
    for name in names:
        why = trouble_with(name)
        if why:
            raise NameRefused(f"the name {name!r} {why}: rename the blob or file, or leave it out.")


def trouble_with(name: str) -> str:
    """Return why azcopy cannot transfer a name; an empty text if it can.

    Spaces, quotes, '%', ';', '#', '?', '+', '*', brackets, tabs and letters of any alphabet are possible.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8, which blob names must be"
    components = name.split("/")
    if "\n" in name or "\0" in name or name.endswith("\r"):
        return "has a newline or NUL, which ends a line of azcopy's list of files"
    if "\\" in name:
        return "has a backslash, which azcopy changes to a slash"
    if any(component in ("", ".", "..") for component in components):
        return "has an empty part, '.' or '..', which a path below a folder cannot have"
    if size > _LONGEST_NAME or any(
        len(component.encode()) > _LONGEST_COMPONENT - len(_TEMPORARY) for component in components
    ):
        longest = _LONGEST_COMPONENT - len(_TEMPORARY)
        return f"is too long: the limit is {longest} bytes for each part, {_LONGEST_NAME} for the name"
    start = name.replace(" ", "").replace("\t", "").rstrip("[")
    if name.startswith("\ufeff") or start in ("{", '"Files":', '{"Files":'):
        return "starts like an old format of azcopy's list of files"
    return ""


# azcopy first writes to a temporary name: this prefix and the file's name.
_TEMPORARY = ".azDownload-00000000-0000-0000-0000-000000000000-"
