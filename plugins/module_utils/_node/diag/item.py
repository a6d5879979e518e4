# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""An item of the catalogue of a bundle: what is read, what it may hold, how secrets are kept out, and its limits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Union

from ..machine.root import Root

NODE, CONTROLLER, ANY = "node", "controller", "any"
"""On which machines an item is read."""
TEXT, JSON, RESULTS, SLURM, VARIABLES = "text", "json", "results", "slurm", "variables"
"""How secrets are kept out: patterns only, or only known settings of a JSON file, of results of hpcnode, of a file of
Slurm, of a file with variables. Patterns are applied to all of them."""
_KIB = 1 << 10


@dataclass(frozen=True)
class Command:
    """A command; its output is read."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """Files; the last part of a path may be a pattern, of which the newest files are read."""

    paths: tuple[str, ...]
    newest: int = 20


@dataclass(frozen=True)
class Facts:
    """A function that returns facts as plain values; it runs in a child process."""

    read: Callable[[Root], Mapping[str, Any]]


@dataclass(frozen=True)
class Tool:
    """A diagnostic tool of somebody else, which writes an archive or a compressed log into a new folder.

    :ivar words: the command; ``{folder}`` stands for the folder.
    :ivar room_bytes: free space that it needs there.
    """

    words: tuple[str, ...]
    room_bytes: int


Source = Union[Command, Files, Facts, Tool]


@dataclass(frozen=True)
class Item:
    """An item of the catalogue.

    :ivar name: its name; the file in the archive has it too.
    :ivar title: what it is, for the first page.
    :ivar holds: what it may hold about people and the site.
    :ivar filter: TEXT, JSON, RESULTS, SLURM or VARIABLES.
    :ivar limit_s: time limit in seconds.
    :ivar most_kib: size limit in KiB. Of a command the beginning is kept, of a log file the end.
    :ivar extra: whether it is only read on request, because it takes minutes.
    :ivar users: a pattern whose group ``name`` is the name of a user, at a place of a line that no user can write to.
        If the line has the user's number too, that is the group ``uid``: accounts of services are then left out.
    :ivar users_below: the heading above the lines with users, which end with an empty line; empty if all lines have
        them.
    :ivar hosts: a pattern whose group is the name of a machine or a host list, at such a place.
    """

    name: str
    title: str
    source: Source
    holds: str = "names of devices and services"
    filter: str = TEXT
    on: str = ANY
    limit_s: float = 10.0
    most_kib: int = 256
    extra: bool = False
    users: str = ""
    users_below: str = ""
    hosts: str = ""

    @property
    def most_bytes(self) -> int:
        """The size limit in bytes."""
        return self.most_kib * _KIB


def command(text: str) -> Command:
    """Return the command with these words; no shell reads it."""
    return Command(tuple(shlex.split(text)))


def files(text: str, newest: int = 20) -> Files:
    """Return the files with these paths, which are separated by blanks."""
    return Files(tuple(text.split()), newest)
