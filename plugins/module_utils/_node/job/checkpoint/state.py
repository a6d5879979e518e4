# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Files that this node stores in a watched directory: its record of the checkpoints, and its watcher's status.

The record contains the attempt and the state of each checkpoint. It is stored with the checkpoints, so it disappears
with them, and is read after a reboot or a requeue. A checkpoint finished in an earlier attempt is published as that
attempt's or not at all, because other nodes may have gone back and saved the same step again. All users may read the
status.
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
"""To publish; this node's part is published; cannot be published; restored from the store; of unknown attempt."""


@dataclass(frozen=True)
class KnownCheckpoint:
    """A finished checkpoint in the record.

    :ivar id: its id as text; empty if its attempt is unknown.
    :ivar stamp: of its signal; if it is RESTORED, of all its files.
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
        """Its parsed id."""
        return id_of(self.id)


@dataclass(frozen=True)
class Record:
    """A node's record.

    :ivar attempt: the last attempt that scanned the directory.
    :ivar checkpoints: by folder.
    """

    attempt: str = ""
    checkpoints: Mapping[str, KnownCheckpoint] = field(default_factory=dict)

    def pending(self) -> list[KnownCheckpoint]:
        """Return the checkpoints to publish, newest first; those of the running attempt come before all others."""
        found = [(one.known, one) for one in self.checkpoints.values() if one.state == PENDING]
        known = [(id_.order_in(self.attempt), one) for id_, one in found if id_]
        return [one for _order, one in sorted(known, key=lambda pair: pair[0], reverse=True)]

    def with_restored(self, others: Iterable[KnownCheckpoint]) -> Record:
        """Return the record with the checkpoints that other nodes have restored to the same directory."""
        return replace(self, checkpoints={**{one.folder: one for one in others}, **self.checkpoints})

    def put(self, one: KnownCheckpoint) -> Record:
        """Return the record with this checkpoint added or replaced."""
        return replace(self, checkpoints={**self.checkpoints, one.folder: one})


def merge(
    record: Record, found: Iterable[FinishedCheckpoint], directory: str, member: Member, world: int | None = None
) -> Record:
    """Return the record after a scan of the directory.

    A new checkpoint belongs to the running attempt. In the attempt's first scan it may be older: then it belongs to the
    attempt only if it was finished after the job's start, or the job has one node, which cannot mix attempts.
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
                "it was finished before this attempt of the job, and its attempt is unknown: save it by hand if needed"
            )
            made = replace(made, id="", state=UNKNOWN, words=words)
        checkpoints[one.folder] = made
    # With the LATEST signal, only the latest one is found; the earlier ones must still be published.
    for folder, known in record.checkpoints.items():
        if folder not in checkpoints and known.latest[0] and os.path.isdir(os.path.join(directory, folder)):
            checkpoints[folder] = known
    return Record(member.attempt, checkpoints)


def tree_stamp(directory: str, folder: str) -> str:
    """Return a digest that changes when any file of a folder does; empty if the folder cannot be read."""
    try:
        return digest(f"{one.path} {one.size} {one.changed}" for one in scan(os.path.join(directory, folder)))
    except (OSError, RuntimeError):
        return ""


def record_path(directory: str, host: str) -> str:
    """Return the path of a node's record. It contains the host name, because nodes may share the directory."""
    return os.path.join(directory, FOLDER, f"record-{host}.json")


def read_record(path: str) -> Record:
    """Return the record; an empty one if there is none, or it is invalid."""
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
    """Return the checkpoints that any node has restored to a directory."""
    folder = os.path.join(directory, FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [read_record(os.path.join(folder, name)) for name in names if name.startswith("record-")]
    return [one for record in found for one in record.checkpoints.values() if one.state == RESTORED]


def write_record(path: str, record: Record) -> None:
    """Write the record.

    :raises OSError: it cannot be written.
    """
    content: dict[str, Any] = {"attempt": record.attempt, "seen": [asdict(one) for one in record.checkpoints.values()]}
    write_file(path, json.dumps({"schema": RECORD_SCHEMA, **content}, indent=1) + "\n")


STATUS_SCHEMA = 1


@dataclass
class WatcherStatus:
    """The status of a watcher.

    :ivar whole: the newest checkpoint that it knows to be complete.
    :ivar published: the newest of which this node's part is published.
    :ivar uploading: the current upload: id, bytes, bytes_done; empty if there is none.
    :ivar pending: the checkpoints that wait for their upload, newest first.
    :ivar rate: bytes per second of the last uploads; None if nothing was measured.
    :ivar notice: a scheduled event that ends the machine: kind, status, not_before, fits, words; empty if none.
    :ivar events: why scheduled events are unknown; empty if they are known.
    :ivar problem: the last error, until the next success.
    :ivar refused: checkpoints that cannot be published, and why.
    :ivar branches: complete checkpoints of other branches, which the retention keeps.
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
        """Whether nothing is wrong. Unknown events count as wrong: the watcher could miss the machine's removal."""
        return not self.events and not self.problem and not self.refused and self.notice.get("fits") is not False

    def events_to_report(self) -> list[str]:
        """Return the lines to log when they change."""
        return ([f"{self.whole} is complete"] if self.whole else []) + self._problem_lines()

    def figures(self) -> dict[str, float]:
        """Return the progress for the node's metrics service."""
        known = {"step": id_of(self.whole), "published_step": id_of(self.published)}
        found = {name: float(one.step) for name, one in known.items() if one}
        if self.uploading:
            found.update(bytes=self.uploading["bytes"], bytes_done=self.uploading["bytes_done"])
        return {"waiting": float(len(self.pending)), **found}

    def lines(self) -> list[str]:
        """Return the status as lines for people."""
        state = "runs" if self.running else "has ended"
        made = [
            f"{self.host}: node {self.rank} of {self.world}, attempt {self.attempt}, {state}; newest complete: "
            f"{self.whole or 'none'}; newest published part: {self.published or 'none'}; waiting: {len(self.pending)}"
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
        made += [f"scheduled events are unknown: {self.events}"] if self.events else []
        return made


def branch_line(text: str) -> str:
    """Return the line about a checkpoint of another branch."""
    return f"kept: {text} is of another branch: a later attempt continued below it (prune --branches removes it)"


def status_path(directory: str, host: str) -> str:
    """Return the path of a node's status."""
    return os.path.join(directory, FOLDER, f"status-{host}.json")


def write_status(path: str, status: WatcherStatus) -> None:
    """Write the status.

    :raises OSError: it cannot be written.
    """
    write_file(path, json.dumps({"schema": STATUS_SCHEMA, **asdict(status)}, indent=1) + "\n")


def read_statuses(directory: str) -> list[WatcherStatus]:
    """Return the statuses of all watchers of a directory."""
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
