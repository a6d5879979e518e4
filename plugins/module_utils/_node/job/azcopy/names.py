# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which names azcopy can carry from a list to a folder and back. What it cannot is refused, never skipped."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_PART = 255
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
    parts = name.split("/")
    if "\n" in name or "\0" in name or name.endswith("\r"):
        return "has a newline or NUL, which ends a line of azcopy's list of files"
    if "\\" in name:
        return "has a backslash, which azcopy makes a slash"
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty part, '.' or '..', which no path below a folder has"
    if size > _LONGEST_NAME or any(len(part.encode()) > _LONGEST_PART - len(_TEMPORARY) for part in parts):
        return f"is too long: a part of it may have {_LONGEST_PART - len(_TEMPORARY)} bytes, all of it {_LONGEST_NAME}"
    start = name.replace(" ", "").replace("\t", "").rstrip("[")
    if name.startswith("\ufeff") or start in ("{", '"Files":', '{"Files":'):
        return "starts as an old form of azcopy's list of files does"
    return ""


# azcopy writes to a name of its own first: this and the file's.
_TEMPORARY = ".azDownload-00000000-0000-0000-0000-000000000000-"
