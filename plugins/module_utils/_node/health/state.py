# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state between runs: values that checks keep until the next boot or for good, and latched findings.

A finding is latched if the next run cannot see it again: an XID is in the log once, but the GPU stays broken. It is
kept until the machine restarts, the device is reset, or somebody clears it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..machine.atomic import make_operators_folder, write_file
from ..machine.kernel import read_boot_id
from ..machine.lock import only_one
from ..machine.root import Root
from .check import ACTIONS, RESET_GPU, Answer, Check, Finding, History, finding_of

MOST = 64
"""How many findings of one check are kept, the newest ones, because a log may be full of them."""


@dataclass(frozen=True)
class Latched:
    """A latched finding.

    :ivar boot_id: the kernel's id of the boot in which it was found.
    :ivar since: when it was first found, in seconds since the epoch.
    """

    finding: Finding
    boot_id: str
    since: float


def latched_after(
    kept: Sequence[Latched], check: Check, answer: Answer, boot_id: str, now: float
) -> tuple[Latched, ...]:
    """Return the latched findings of a check after a new answer."""
    for device in answer.released:
        kept = release(kept, check, device)
    known = {_identity(latched.finding): latched for latched in kept}
    for finding in answer.findings:
        if finding.latch:
            before = known.pop(_identity(finding), None)
            known[_identity(finding)] = Latched(finding, boot_id, before.since if before else now)
    return tuple(known.values())[-MOST:]


def release(kept: Sequence[Latched], check: Check, device: str) -> tuple[Latched, ...]:
    """Return the latched findings after a device was reset: without those of this device that a reset repairs."""
    mended = ACTIONS[: ACTIONS.index(RESET_GPU) + 1]
    return tuple(
        latched
        for latched in kept
        if latched.finding.device != device or (latched.finding.action or check.action) not in mended
    )


def latched_in_boot(kept: Iterable[Latched], boot_id: str) -> tuple[Latched, ...]:
    """Return the latched findings of this boot, because a restart removes all. Without a boot id, return all."""
    return tuple(latched for latched in kept if not boot_id or latched.boot_id == boot_id)


def not_found_again(kept: Iterable[Latched], answer: Answer) -> tuple[Finding, ...]:
    """Return the latched findings that were not found again."""
    found_again = {_identity(finding) for finding in answer.findings}
    return tuple(latched.finding for latched in kept if _identity(latched.finding) not in found_again)


def _identity(finding: Finding) -> tuple[str, str, str]:
    return finding.verdict, finding.device, finding.summary


RUN_FOLDER, KEPT_FOLDER = "/run/hpcai/health", "/var/lib/hpcai/health"
PASSING_FILE = f"{RUN_FOLDER}/history.json"
LASTING_FILE = f"{KEPT_FOLDER}/history.json"
LATCHED_FILE = f"{KEPT_FOLDER}/latched.json"
SCHEMA = 1
_LOCK_S = 2.0
"""Seconds to wait while another run writes."""


@dataclass
class State:
    """The saved state.

    :ivar passing: values until the next boot, by check and key.
    :ivar lasting: values for good, by check and key.
    :ivar unanswered: in how many consecutive runs a driver or device did not answer, by check.
    :ivar latched: latched findings, by check.
    :ivar problems: messages about what could not be read.
    """

    passing: dict[str, dict[str, Any]] = field(default_factory=dict)
    lasting: dict[str, dict[str, Any]] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    latched: dict[str, tuple[Latched, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def history(self, check: str) -> History:
        """Return the values that a check has kept."""
        return History({**self.lasting.get(check, {}), **self.passing.get(check, {})})

    def keep(self, check: str, changed: Mapping[str, tuple[Any, bool]]) -> None:
        """Store the values that a check keeps (``History.changed``)."""
        for key, (value, for_good) in changed.items():
            for values in (self.passing, self.lasting):
                values.get(check, {}).pop(key, None)
            if value is not None:
                (self.lasting if for_good else self.passing).setdefault(check, {})[key] = value


def read(root: Root) -> State:
    """Return the saved state of this boot."""
    memory, boot = State(), read_boot_id(root)
    passing = _load(root, PASSING_FILE, memory)
    if passing.get("boot_id") == boot:
        memory.passing = dict(passing.get("checks") or {})
        memory.unanswered = dict(passing.get("unanswered") or {})
    memory.lasting = dict(_load(root, LASTING_FILE, memory).get("checks") or {})
    for check, entries in (_load(root, LATCHED_FILE, memory).get("checks") or {}).items():
        try:
            kept = [Latched(finding_of(one["finding"]), one["boot_id"], one["since"]) for one in entries]
        except (LookupError, TypeError):
            memory.problems.append(
                f"{root.at(LATCHED_FILE)}: cannot read the latched findings of {check}; they are lost"
            )
            continue
        memory.latched[check] = latched_in_boot(kept, boot)
    return memory


@contextlib.contextmanager
def changes(root: Root) -> Iterator[State]:
    """Lock the state, yield it for changes, and write what changed.

    :raises OSError: it cannot be written.
    :raises Locked: another process holds the lock.
    """
    make_operators_folder(root, RUN_FOLDER)
    with only_one(root.at(f"{RUN_FOLDER}/lock"), _LOCK_S):
        memory = read(root)
        yield memory
        for path, text in _files(root, memory).items():
            # Usually nothing is new, and syncing the file to the disk takes longer than most checks.
            if text.strip() != root.text(path):
                write_file(root.at(path), text, mode=0o600)


def _files(root: Root, memory: State) -> dict[str, str]:
    """Return the texts of the files by path, in the order of writing.

    The latched findings come first, and the positions in logs after them: if the disk is full, as users can fill it,
    the next run must find them again.
    """
    latched = {check: [asdict(one) for one in kept] for check, kept in memory.latched.items() if kept}
    unanswered = {check: count for check, count in memory.unanswered.items() if count}
    return {
        LATCHED_FILE: _text({"checks": latched}),
        PASSING_FILE: _text({"boot_id": read_boot_id(root), "checks": memory.passing, "unanswered": unanswered}),
        LASTING_FILE: _text({"checks": {check: values for check, values in memory.lasting.items() if values}}),
    }


def _text(held: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **held}, indent=1, sort_keys=True) + "\n"


def _load(root: Root, path: str, memory: State) -> dict[str, Any]:
    if not root.exists(path):
        return {}
    try:
        held = json.loads(root.text(path) or "")
        if isinstance(held, dict) and held.get("schema") == SCHEMA and isinstance(held.get("checks"), dict):
            return held
    except ValueError:
        pass
    memory.problems.append(f"{root.at(path)} cannot be read: the state of earlier runs in it is lost")
    return {}
