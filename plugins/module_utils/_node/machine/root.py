# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reading the machine's files below a root: ``/`` for this machine, a captured tree for another one."""

from __future__ import annotations

import os
from collections.abc import Iterator


class NoRoot(ValueError):
    """There is no folder of that name; the message names it."""


class Root:
    """The place below which a machine's files lie.

    All paths given to it are absolute paths of that machine. Reading what is not there is no error: machines differ,
    and the answer None says so.
    """

    def __init__(self, path: str = "/") -> None:
        self.path = os.path.abspath(path)

    @property
    def is_this_machine(self) -> bool:
        """Whether the files are the running machine's own."""
        return self.path == "/"

    def at(self, path: str) -> str:
        """Return where the machine's ``path`` lies."""
        return os.path.join(self.path, path.lstrip("/")) if not self.is_this_machine else path

    def text(self, path: str) -> str | None:
        """Return what the file holds, without white space around it; None if it cannot be read."""
        try:
            with open(self.at(path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """Return the decimal or ``0x`` number that the file holds; None if there is none."""
        text = self.text(path) or ""
        try:
            return int(text, 16 if text.lower().startswith("0x") else 10)
        except ValueError:
            return None

    def entries(self, path: str) -> list[str]:
        """Return the sorted names in a folder; none if it is not there."""
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether there is something, a dangling link included."""
        return os.path.lexists(self.at(path))

    def link_name(self, path: str) -> str | None:
        """Return the last part of where a symbolic link points to; None if it is none."""
        try:
            return os.path.basename(os.readlink(self.at(path)))
        except OSError:
            return None

    def numbered(self, path: str, prefix: str) -> Iterator[tuple[int, str]]:
        """Yield a folder's entries that are ``prefix`` and a number, as (number, absolute path), by number."""
        found = []
        for entry in self.entries(path):
            tail = entry[len(prefix) :]
            if entry.startswith(prefix) and tail.isdecimal():
                found.append((int(tail), f"{path.rstrip('/')}/{entry}"))
        return iter(sorted(found))


def existing_root(path: str, option: str = "root") -> Root:
    """Return the root that an option names. A captured tree with a wrong path would look like an empty machine.

    :raises NoRoot: there is no such folder.
    """
    if not os.path.isdir(path):
        raise NoRoot(f"{option} {path}: there is no such folder")
    return Root(path)
