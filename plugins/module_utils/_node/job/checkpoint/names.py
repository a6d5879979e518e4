# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a checkpoint is called, and where its parts lie below the place of its series.

::

    data/ID/RANK-DIGEST/PATH   what a node gave, DIGEST that of its names, sizes and hashes
    shards/ID/RANK.json        a node's manifest, written when all its data is there
    complete/ID.json           the job's manifest, written when the manifests of all nodes are there
    pruned/ID                  this one is being removed, or was: it is not whole, whatever else is there
    choices/CALL.json          which one the nodes of a job restore

ID names step, attempt, number of nodes and save: what differs in one of them shares no path, so that no mix of steps or
of attempts can have a manifest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

COMPLETE, PRUNED, SHARDS, DATA, CHOICES = "complete/", "pruned/", "shards/", "data/", "choices/"

ATTEMPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,62}")
SAVE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,39}")
LARGEST_STEP = 10**12 - 1
_ID = re.compile(
    r"(?P<step>[0-9]{12})-(?P<attempt>[A-Za-z0-9_][A-Za-z0-9._]{0,62})-w(?P<world>[1-9][0-9]{0,5})"
    r"(-(?P<save>[A-Za-z0-9_][A-Za-z0-9._]{0,39}))?"
)


@dataclass(frozen=True)
class Id:
    """Which checkpoint.

    :ivar step: of the training.
    :ivar attempt: of the job: a restart is another one.
    :ivar world: how many nodes give a shard.
    :ivar save: what tells two saves of one step in one attempt apart; mostly empty.
    """

    step: int
    attempt: str
    world: int
    save: str = ""

    @property
    def text(self) -> str:
        """How it is written."""
        return f"{self.step:012d}-{self.attempt}-w{self.world}{f'-{self.save}' if self.save else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """By which it is older or newer than others of its attempt. For those of other attempts see ``line``."""
        return (self.step, self.attempt_order, _natural(self.save), self.world)

    @property
    def attempt_order(self) -> tuple[tuple[int, str], ...]:
        """By which its attempt comes before or after others where nothing else tells, numbers as numbers."""
        return _natural(self.attempt)

    def order_in(self, attempt: str) -> tuple[object, ...]:
        """By which it is older or newer while an attempt runs: whatever that saves is newer than all of others."""
        return (self.attempt == attempt, *self.order)

    @property
    def complete(self) -> str:
        """The name of the job's manifest."""
        return f"{COMPLETE}{self.text}.json"

    @property
    def pruned(self) -> str:
        """The name of what says that it is removed."""
        return f"{PRUNED}{self.text}"

    @property
    def shards(self) -> str:
        """The folder of the nodes' manifests."""
        return f"{SHARDS}{self.text}/"

    def shard(self, rank: int) -> str:
        """Return the name of a node's manifest."""
        return f"{self.shards}{rank}.json"

    @property
    def all_data(self) -> str:
        """The folder of all nodes' data."""
        return f"{DATA}{self.text}/"

    def data(self, rank: int, digest: str) -> str:
        """Return the folder of a node's data."""
        return f"{self.all_data}{rank}-{digest[:16]}/"


def id_of(text: str) -> Id | None:
    """Return the checkpoint that ``text`` names; None if it names none."""
    found = _ID.fullmatch(text)
    if not found:
        return None
    return Id(int(found["step"]), found["attempt"], int(found["world"]), found["save"] or "")


def id_in(name: str) -> Id | None:
    """Return the checkpoint that a blob belongs to; None if it belongs to none."""
    folder, _slash, rest = name.partition("/")
    if f"{folder}/" not in (COMPLETE, PRUNED, SHARDS, DATA):
        return None
    first = rest.partition("/")[0]
    return id_of(first[: -len(".json")] if folder == COMPLETE[:-1] and first.endswith(".json") else first)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in text.split("."))
