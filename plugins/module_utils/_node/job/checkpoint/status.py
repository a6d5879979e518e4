# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a watcher does, in a file beside the checkpoints that everybody may read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...machine.atomic import write_file
from .record import FOLDER

SCHEMA = 1


@dataclass
class Status:
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

    def events_to_tell(self) -> list[str]:
        """Return what is worth a line when it changes."""
        made = [f"{self.whole} is whole"] if self.whole else []
        made += [f"notice: {self.notice['kind']}: {self.notice['words']}"] if self.notice else []
        made += [f"refused: {id_}: {why}" for id_, why in self.refused.items()]
        made += [f"problem: {self.problem}"] if self.problem else []
        made += [branch_line(text) for text in self.branches]
        made += [f"scheduled events are not known: {self.events}"] if self.events else []
        return made

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
        if self.notice:
            made.append(f"notice: {self.notice['kind']}: {self.notice['words']}")
        made += [f"refused: {id_}: {why}" for id_, why in self.refused.items()]
        made += [f"problem: {self.problem}"] if self.problem else []
        made += [branch_line(text) for text in self.branches]
        made += [f"scheduled events are not known: {self.events}"] if self.events else []
        return made


def branch_line(text: str) -> str:
    """Say of a checkpoint that it is of another branch."""
    return f"kept: {text} is of another branch: a later attempt continued below it (prune --branches removes it)"


def path_of(directory: str, host: str) -> str:
    """Return where a node's status lies."""
    return os.path.join(directory, FOLDER, f"status-{host}.json")


def write(path: str, status: Status) -> None:
    """Write it.

    :raises OSError: it cannot be written.
    """
    write_file(path, json.dumps({"schema": SCHEMA, **asdict(status)}, indent=1) + "\n")


def read_all(directory: str) -> list[Status]:
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
                if given.pop("schema") == SCHEMA:
                    found.append(Status(**given))
            except (OSError, ValueError, LookupError, TypeError):
                continue
    return found
