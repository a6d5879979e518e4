# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where blobs lie, a container and a folder in it, and which names azcopy can carry from a list to a folder and back.

A name that it cannot carry is refused, never skipped.
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
    """This is not the URL of a container or folder; the message says what one looks like."""


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
        """Where it listens, if that is stated."""
        return urlsplit(self.url).port

    @property
    def address(self) -> str:
        """The URL of the folder, its name quoted."""
        return f"{self.url}/{quote(self.prefix)}" if self.prefix else self.url

    def below(self, folder: str) -> BlobLocation:
        """Return the location of a folder in this one.

        :raises LocationError: it is no folder's name.
        """
        return BlobLocation(self.url, self.prefix + _prefix(folder))


def parse_location(url: str, prefix: str = "") -> BlobLocation:
    """Return the location at ``url``: a container, or a folder in one.

    :param prefix: a folder below it.
    :raises LocationError: it is none. What the message quotes holds no secret.
    """
    split = urlsplit(url)
    shown = redacted(url.partition("?")[0])
    if split.query or split.fragment or split.username or "@" in split.netloc:
        raise LocationError(
            f"{shown} comes with a query, a fragment or a password: a SAS does not belong into a URL. Put it into a "
            "file of mode 0600 (--sas-file)."
        )
    if split.scheme != "https" and not (split.scheme == "http" and split.hostname in _LOOPBACK):
        raise LocationError(
            f"{shown}: the URL of a container starts with https:// (http only for this machine itself)."
        )
    # An account at an address has its name in the path, as Azurite's has: http://127.0.0.1:10000/ACCOUNT/CONTAINER.
    folders = [folder for folder in split.path.split("/") if folder]
    in_path = 1 if re.fullmatch(r"[\d.]+|.*:.*|localhost", split.hostname or "") else 0
    if not split.hostname or len(folders) <= in_path or not _CONTAINER.fullmatch(folders[in_path]):
        raise LocationError(
            f"{shown} names no container: it looks like https://ACCOUNT.blob.core.windows.net/CONTAINER[/FOLDER]."
        )
    base = f"{split.scheme}://{split.netloc}/{'/'.join(folders[: in_path + 1])}"
    return BlobLocation(base, _prefix("/".join(folders[in_path + 1 :])) + _prefix(prefix))


def _prefix(folder: str) -> str:
    names = [name for name in folder.split("/") if name]
    if any(name in (".", "..") or not name.isprintable() or "\\" in name for name in names):
        raise LocationError(
            f"{folder!r} is no folder in a container: '.', '..', '\\' and control characters cannot be."
        )
    return "/".join(names) + "/" if names else ""


def redacted(text: str) -> str:
    """Return the text without the signature of a SAS."""
    return _SIG.sub(r"\1-REDACTED-", text)


_LONGEST_COMPONENT = 255
_LONGEST_NAME = 1024


class NameRefused(ValueError):
    """A blob whose name azcopy or a file system cannot carry; the message names it and says why."""


def check_names(names: Iterable[str]) -> None:
    """Refuse the first name that cannot be carried.

    :raises NameRefused: there is one.
    """
    for name in names:
        why = trouble_with(name)
        if why:
            raise NameRefused(f"the name {name!r} {why}: rename the blob or file, or leave it out.")


def trouble_with(name: str) -> str:
    """Return why a name cannot be carried; nothing if it can.

    Spaces, quotes, '%', ';', '#', '?', '+', '*', brackets, tabs and any alphabet can.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is no UTF-8, and a blob's name is"
    components = name.split("/")
    if "\n" in name or "\0" in name or name.endswith("\r"):
        return "has a newline or NUL, which ends a line of azcopy's list of files"
    if "\\" in name:
        return "has a backslash, which azcopy makes a slash"
    if any(component in ("", ".", "..") for component in components):
        return "has an empty part, '.' or '..', which no path below a folder has"
    if size > _LONGEST_NAME or any(
        len(component.encode()) > _LONGEST_COMPONENT - len(_TEMPORARY) for component in components
    ):
        longest = _LONGEST_COMPONENT - len(_TEMPORARY)
        return f"is too long: a part of it may have {longest} bytes, all of it {_LONGEST_NAME}"
    start = name.replace(" ", "").replace("\t", "").rstrip("[")
    if name.startswith("\ufeff") or start in ("{", '"Files":', '{"Files":'):
        return "starts as an old form of azcopy's list of files does"
    return ""


# azcopy writes to a name of its own first: this and the file's.
_TEMPORARY = ".azDownload-00000000-0000-0000-0000-000000000000-"
