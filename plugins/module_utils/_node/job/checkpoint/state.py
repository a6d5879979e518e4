# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What this node keeps beside the checkpoints in a watched directory: its record of them, and its watcher's status.

The record says to which attempt each belongs, and how far it is. It is gone when the checkpoints are, and it is asked
after a reboot or a requeue. What was finished in an earlier attempt is published as that attempt's, or not at all:
other nodes may have gone back, and saved the same step anew. The status may be read by everybody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...machine.atomic import write_file
from .directory import FinishedCheckpoint, digest, scan
from .names import Id, Member, id_of

FOLDER = ".hpcai-checkpoint"
RECORD_SCHEMA = 1
PENDING, PUBLISHED, REFUSED, RESTORED, UNKNOWN = "pending", "published", "refused", "restored", "unknown"
"""To be published; this node's part is; it cannot be; it came from the store; nobody knows of which attempt it is."""


@dataclass(frozen=True)
class KnownCheckpoint:
    """A finished checkpoint.

    :ivar id: its id's text; empty where it is of no known attempt.
    :ivar stamp: of its sign; of RESTORED ones, of all its files.
    :ivar words: why it is REFUSED or UNKNOWN.
    """

    folder: str
    id: str
    rank: int
    stamp: str
    state: str = PENDING
    latest: tuple[str, str] = ("", "")
    words: str = ""

    @property
    def known(self) -> Id | None:
        """Which checkpoint it is."""
        return id_of(self.id)


@dataclass(frozen=True)
class Record:
    """What is known.

    :ivar attempt: which attempt looked last.
    :ivar checkpoints: by folder.
    """

    attempt: str = ""
    checkpoints: Mapping[str, KnownCheckpoint] = field(default_factory=dict)

    def pending(self) -> list[KnownCheckpoint]:
        """Return what is to be published, the newest first: what the running attempt saved before all else."""
        found = [(one.known, one) for one in self.checkpoints.values() if one.state == PENDING]
        known = [(id_.order_in(self.attempt), one) for id_, one in found if id_]
        return [one for _order, one in sorted(known, key=lambda pair: pair[0], reverse=True)]

    def with_restored(self, others: Iterable[KnownCheckpoint]) -> Record:
        """Return the record with what other nodes have restored into the same directory."""
        return replace(self, checkpoints={**{one.folder: one for one in others}, **self.checkpoints})

    def put(self, one: KnownCheckpoint) -> Record:
        """Return the record with one more, or another."""
        return replace(self, checkpoints={**self.checkpoints, one.folder: one})


def merge(
    record: Record, found: Iterable[FinishedCheckpoint], directory: str, member: Member, world: int | None = None
) -> Record:
    """Return the record after a look at the directory.

    What is new is of the running attempt, unless this is the attempt's first look: then it may be older. It is the
    attempt's if it was finished after the job had started, or the job has but this node, which cannot mix anything.
    """
    nodes = member.world if world is None else world
    first = record.attempt != member.attempt
    checkpoints = {}
    for one in found:
        known = record.checkpoints.get(one.folder)
        if known and known.stamp == (one.stamp if known.state != RESTORED else tree_stamp(directory, one.folder)):
            checkpoints[one.folder] = known
            continue
        id_ = Id(one.step, member.attempt, nodes, one.save)
        made = KnownCheckpoint(one.folder, id_.text, member.rank, one.stamp, latest=one.latest)
        if first and nodes > 1 and not 0 < member.started <= one.when:
            words = (
                "it was finished before this attempt of the job, and nobody noted in which: save it by hand, if at all"
            )
            made = replace(made, id="", state=UNKNOWN, words=words)
        checkpoints[one.folder] = made
    # With a file that names the latest, the others are no longer found, and are to be published all the same.
    for folder, known in record.checkpoints.items():
        if folder not in checkpoints and known.latest[0] and os.path.isdir(os.path.join(directory, folder)):
            checkpoints[folder] = known
    return Record(member.attempt, checkpoints)


def tree_stamp(directory: str, folder: str) -> str:
    """Return what changes when any file of a folder does; empty where it cannot be read."""
    try:
        return digest(f"{one.path} {one.size} {one.changed}" for one in scan(os.path.join(directory, folder)))
    except (OSError, RuntimeError):
        return ""


def record_path(directory: str, host: str) -> str:
    """Return where a node's record lies. Nodes may share the directory."""
    return os.path.join(directory, FOLDER, f"record-{host}.json")


def read_record(path: str) -> Record:
    """Return the record; an empty one where there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        if given["schema"] != RECORD_SCHEMA:
            return Record()
        checkpoints = [KnownCheckpoint(**{**one, "latest": tuple(one["latest"])}) for one in given["seen"]]
        return Record(str(given["attempt"]), {one.folder: one for one in checkpoints})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return Record()


def read_restored(directory: str) -> list[KnownCheckpoint]:
    """Return what any node has restored into a directory."""
    folder = os.path.join(directory, FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [read_record(os.path.join(folder, name)) for name in names if name.startswith("record-")]
    return [one for record in found for one in record.checkpoints.values() if one.state == RESTORED]


def write_record(path: str, record: Record) -> None:
    """Keep the record.

    :raises OSError: it cannot be written.
    """
    content: dict[str, Any] = {"attempt": record.attempt, "seen": [asdict(one) for one in record.checkpoints.values()]}
    write_file(path, json.dumps({"schema": RECORD_SCHEMA, **content}, indent=1) + "\n")


STATUS_SCHEMA = 1


@dataclass
class WatcherStatus:
    """What a watcher does.

    :ivar whole: the newest checkpoint that it knows to be whole.
    :ivar published: the newest of which this node's part is there.
    :ivar uploading: what is being uploaded: id, bytes, bytes_done; empty if nothing is.
    :ivar pending: what waits, the newest first.
    :ivar rate: bytes a second of the last uploads; None where nothing was measured.
    :ivar notice: what the machine was told: kind, status, not_before, fits, words; empty if nothing.
    :ivar events: why scheduled events are not known; empty where they are.
    :ivar problem: what went wrong last, until it goes well.
    :ivar refused: what cannot be published, and why.
    :ivar branches: whole ones of other branches, which the retention does not remove.
    """

    host: str
    pid: int
    attempt: str
    rank: int
    world: int
    running: bool = True
    whole: str = ""
    published: str = ""
    uploading: Mapping[str, Any] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    rate: float | None = None
    notice: Mapping[str, Any] = field(default_factory=dict)
    events: str = ""
    problem: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    branches: list[str] = field(default_factory=list)
    updated: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing is wrong. A watcher that hears no events would not save before the machine goes."""
        return not self.events and not self.problem and not self.refused and self.notice.get("fits") is not False

    def events_to_report(self) -> list[str]:
        """Return what is worth a line when it changes."""
        return ([f"{self.whole} is whole"] if self.whole else []) + self._problem_lines()

    def lines(self) -> list[str]:
        """Return it for people."""
        state = "runs" if self.running else "has ended"
        made = [
            f"{self.host}: node {self.rank} of {self.world}, attempt {self.attempt}, {state}; newest whole "
            f"{self.whole or 'none'}; own part published {self.published or 'none'}; {len(self.pending)} wait"
        ]
        if self.uploading:
            up = self.uploading
            made.append(f"uploading {up['id']}: {up['bytes_done'] / 1e6:.0f} of {up['bytes'] / 1e6:.0f} MB")
        return made + self._problem_lines()

    def _problem_lines(self) -> list[str]:
        made = [f"notice: {self.notice['kind']}: {self.notice['words']}"] if self.notice else []
        made += [f"refused: {id_}: {why}" for id_, why in self.refused.items()]
        made += [f"problem: {self.problem}"] if self.problem else []
        made += [branch_line(text) for text in self.branches]
        made += [f"scheduled events are not known: {self.events}"] if self.events else []
        return made


def branch_line(text: str) -> str:
    """Say of a checkpoint that it is of another branch."""
    return f"kept: {text} is of another branch: a later attempt continued below it (prune --branches removes it)"


def status_path(directory: str, host: str) -> str:
    """Return where a node's status lies."""
    return os.path.join(directory, FOLDER, f"status-{host}.json")


def write_status(path: str, status: WatcherStatus) -> None:
    """Write it.

    :raises OSError: it cannot be written.
    """
    write_file(path, json.dumps({"schema": STATUS_SCHEMA, **asdict(status)}, indent=1) + "\n")


def read_statuses(directory: str) -> list[WatcherStatus]:
    """Return what all watchers of a directory say; nothing where there are none."""
    folder, found = os.path.join(directory, FOLDER), []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        if name.startswith("status-") and name.endswith(".json"):
            try:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    given = json.load(file)
                if given.pop("schema") == STATUS_SCHEMA:
                    found.append(WatcherStatus(**given))
            except (OSError, ValueError, LookupError, TypeError):
                continue
    return found
