# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads a machine's files below a root: ``/`` for this machine, or a captured tree of another machine."""

from __future__ import annotations

import os
from collections.abc import Iterator


class NoRoot(ValueError):
    """The folder does not exist; the message names it."""


class Root:
    """The folder below which a machine's files are.

    All paths given to it are absolute paths of that machine. Reading a missing file is not an error but returns None,
    because machines differ.
    """

    def __init__(self, path: str = "/") -> None:
        self.path = os.path.abspath(path)

    @property
    def is_this_machine(self) -> bool:
        """Whether the files are the running machine's own."""
        return self.path == "/"

    def at(self, path: str) -> str:
        """Return the path below the root for the machine's ``path``."""
        return os.path.join(self.path, path.lstrip("/")) if not self.is_this_machine else path

    def text(self, path: str) -> str | None:
        """Return the file's text without surrounding white space; None if it cannot be read.

        A carriage return stays one: the kernel's files contain names that users choose, such as those of processes,
        and escape only line feeds in them.
        """
        try:
            with open(self.at(path), encoding="utf-8", errors="replace", newline="\n") as file:
                return file.read().strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """Return the decimal or ``0x`` number in the file; None if there is none."""
        text = self.text(path) or ""
        try:
            return int(text, 16 if text.lower().startswith("0x") else 10)
        except ValueError:
            return None

    def entries(self, path: str) -> list[str]:
        """Return the sorted names in a folder; none if it does not exist."""
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the path exists, including a dangling link."""
        return os.path.lexists(self.at(path))

    def link_name(self, path: str) -> str | None:
        """Return the last part of a symbolic link's target; None if it is not a link."""
        try:
            return os.path.basename(os.readlink(self.at(path)))
        except OSError:
            return None

    def numbered(self, path: str, prefix: str) -> Iterator[tuple[int, str]]:
        """Yield a folder's entries named ``prefix`` plus a number, as (number, absolute path), sorted by number."""
        found = []
        for entry in self.entries(path):
            tail = entry[len(prefix) :]
            if entry.startswith(prefix) and tail.isdecimal():
                found.append((int(tail), f"{path.rstrip('/')}/{entry}"))
        return iter(sorted(found))


def existing_root(path: str, option: str = "root") -> Root:
    """Return the root that an option names, if it exists: a wrong path would look like a machine without files.

    :raises NoRoot: there is no such folder.
    """
    if not os.path.isdir(path):
        raise NoRoot(f"{option} {path}: there is no such folder")
    return Root(path)
