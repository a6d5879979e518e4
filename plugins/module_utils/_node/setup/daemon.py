# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Keep a systemd service running on the configuration that lies on disk.

Whether a service must be restarted is read off the machine: is one of its files younger than its main process? Nothing
has to be remembered between the moment a file changes and the moment of the restart, so a run that is cut off in
between loses nothing: the next one sees the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..machine.run import CommandFailed, Result, Run, must

RUNNING = "/run/systemd/system"
"""Is there where systemd is the first process (sd_booted(3))."""
_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "ExecMainStartTimestamp",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
)
_STOPPED_STATES = ("inactive", "failed", "deactivating")
# A service that fails over and over: its ActiveState between two attempts is "activating", as if it were on its way.
_FAILING_SUBSTATES = ("auto-restart", "auto-restart-queued")
# UnitFileStates of units that have nothing to enable or disable, e.g. because another unit always starts them.
_NOT_SWITCHABLE = ("static", "alias", "generated", "transient", "indirect")


@dataclass(frozen=True)
class ServiceFacts:
    """A service as systemd has it, and the age of its files.

    :ivar loaded: systemd knows the unit, and it is not masked.
    :ivar active: systemd's ActiveState; its SubState for a service that fails over and over.
    :ivar enabled: whether it starts at boot; None where it cannot be enabled or disabled.
    :ivar started_at: when the main process started, in seconds since the epoch; None where there is none.
    :ivar newest_file: path and modification time (seconds since the epoch) of the youngest watched file; None where no
        watched file exists.
    :ivar needs_daemon_reload: unit files changed since systemd read them.
    :ivar at_rest: no systemd runs here: this is an image, in which a service can be enabled, but not started.
    """

    name: str
    loaded: bool
    load_state: str
    active: str
    enabled: bool | None
    started_at: float | None
    newest_file: tuple[str, float] | None
    needs_daemon_reload: bool
    at_rest: bool = False

    @property
    def unknown(self) -> bool:
        """Whether systemd has never heard of the unit: its package is not installed, or brings no such unit."""
        return self.load_state == "not-found"


@dataclass(frozen=True)
class DesiredState:
    """What the service should be."""

    running: bool
    enabled: bool


@dataclass(frozen=True)
class Plan:
    """systemctl's verbs in their order, and in plain words why."""

    verbs: tuple[str, ...]
    reasons: tuple[str, ...]


def plan(facts: ServiceFacts, desired: DesiredState, may_come: bool = False, pending: bool = False) -> Plan:
    """Return what to do to the service. Pure.

    :param may_come: whether something may bring the unit before the plan is carried out, as in check mode, where the
        package was not installed. Then a unit that systemd does not know is no error.
    :param pending: whether a file of the service would be written before, as in check mode, where it was not.
    :raises CommandFailed: the unit is not there or is masked although it should run.
    """
    verbs: list[str] = []
    reasons: list[str] = []
    if not facts.loaded and (desired.running or desired.enabled):
        if may_come and facts.unknown:
            steps = (("enable", desired.enabled), ("restart", desired.running))
            return Plan(tuple(verb for verb, needed in steps if needed), (f"systemd does not know {facts.name} yet",))
        raise CommandFailed(
            f"systemd cannot load {facts.name} (LoadState={facts.load_state}): install the package that brings it, "
            f"or unmask it."
        )
    if facts.needs_daemon_reload:
        verbs.append("daemon-reload")
        reasons.append("unit files changed since systemd read them")
    if facts.enabled is not None and desired.enabled != facts.enabled:
        verbs.append("enable" if desired.enabled else "disable")
        reasons.append(f"it is {'not ' if desired.enabled else ''}enabled")
    if facts.at_rest:
        return Plan(tuple(verbs), tuple(reasons))
    if not desired.running:
        if facts.active not in _STOPPED_STATES:
            verbs.append("stop")
            reasons.append(f"it is {facts.active}")
    elif facts.active in (*_STOPPED_STATES, *_FAILING_SUBSTATES):
        verbs.append("restart")
        reasons.append(f"it is {facts.active}")
    elif facts.needs_daemon_reload:
        verbs.append("restart")
    elif facts.newest_file and (facts.started_at is None or facts.newest_file[1] > facts.started_at):
        verbs.append("restart")
        reasons.append(f"{facts.newest_file[0]} is younger than the running process")
    elif pending:
        verbs.append("restart")
        reasons.append("a file of it would be written before")
    return Plan(tuple(verbs), tuple(reasons))


def read_facts(name: str, watched: Iterable[str], run: Run) -> ServiceFacts:
    """Ask systemd and the file system about the service ``name``.

    :param watched: files and folders whose change asks for a restart. Of a folder its entries count, and the folder
        itself, so that a removed file is noticed. The unit's own files and drop-ins always count.
    """
    answer = run(["systemctl", "show", name, "--timestamp=us+utc", "--property=" + ",".join(_PROPERTIES)])
    if "LoadState=" not in answer.stdout and not os.path.exists(RUNNING):
        return _read_at_rest(name, answer, run)
    must(answer)
    shown = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    active, sub_state = shown.get("ActiveState", "unknown"), shown.get("SubState", "")
    unit_file_state = shown.get("UnitFileState", "")
    unit_files = [shown.get("FragmentPath", ""), *shown.get("DropInPaths", "").split()]
    return ServiceFacts(
        name=name,
        loaded=shown.get("LoadState") == "loaded",
        load_state=shown.get("LoadState", "unknown"),
        active=sub_state if sub_state in _FAILING_SUBSTATES else active,
        enabled=None if unit_file_state in _NOT_SWITCHABLE else unit_file_state == "enabled",
        started_at=parse_timestamp(shown.get("ExecMainStartTimestamp", "")),
        newest_file=newest([*watched, *(path for path in unit_files if path)]),
        needs_daemon_reload=shown.get("NeedDaemonReload") == "yes",
    )


def _read_at_rest(name: str, refusal: Result, run: Run) -> ServiceFacts:
    """Read what can be told of a service where no systemd runs: systemctl reads the unit files itself."""
    answer = run(["systemctl", "is-enabled", name])
    state = answer.stdout.strip()
    if answer.rc == 127 or (not state and "No such file" not in answer.stderr):
        must(refusal)
    load_state = {"": "not-found", "not-found": "not-found"}.get(state, "masked" if "masked" in state else "loaded")
    return ServiceFacts(
        name=name,
        loaded=load_state == "loaded",
        load_state=load_state,
        active="inactive",
        enabled=None if state in _NOT_SWITCHABLE else state == "enabled",
        started_at=None,
        newest_file=None,
        needs_daemon_reload=False,
        at_rest=True,
    )


def parse_timestamp(text: str) -> float | None:
    """Return systemd's ``Sat 2026-11-21 10:50:01.123456 UTC`` as seconds since the epoch; None for an empty one."""
    if not text.strip() or text.strip() == "n/a":
        return None
    # Not "%a" and "%Z": they expect the names of this process's locale, and Ansible sets that to the user's.
    date, time = text.split()[1:3]
    return datetime.strptime(f"{date} {time}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()


def newest(paths: Iterable[str]) -> tuple[str, float] | None:
    """Return the youngest of the files and of the folders' entries, with its modification time; None if none exists."""
    ages: dict[str, float] = {}
    for path in paths:
        for candidate in (path, *_entries(path)):
            try:
                ages[candidate] = os.stat(candidate).st_mtime
            except FileNotFoundError:
                continue
    if not ages:
        return None
    youngest = max(ages, key=lambda candidate: ages[candidate])
    return youngest, ages[youngest]


def _entries(path: str) -> Sequence[str]:
    return [os.path.join(path, entry) for entry in os.listdir(path)] if os.path.isdir(path) else ()


def apply(name: str, planned: Plan, run: Run) -> None:
    """Carry out the plan.

    :raises CommandFailed: systemctl refused, or the service did not stay up; the message ends with its last words.
    """
    for verb in planned.verbs:
        result = run(["systemctl", verb] if verb == "daemon-reload" else ["systemctl", verb, name])
        if result.rc != 0 and verb == "restart":
            raise CommandFailed(f"'systemctl restart {name}' failed: {_last_words(name, result.stderr, run)}")
        must(result)


def check_running(name: str, run: Run) -> str | None:
    """Return None if the service is up, else what it said last."""
    state = run(["systemctl", "is-active", name]).stdout.strip()
    return None if state in ("active", "reloading") else f"{name} is {state}: {_last_words(name, '', run)}"


def _last_words(name: str, fallback: str, run: Run) -> str:
    journal = run(["journalctl", "--unit", name, "--no-pager", "--quiet", "--output=cat", "--lines=5"]).stdout
    return " | ".join(line.strip() for line in (journal or fallback).strip().splitlines() if line.strip()) or "no log"


def as_diff(facts: ServiceFacts, desired: DesiredState, made: Plan) -> Mapping[str, str]:
    """Return the change in the form of Ansible's diff: texts ``before`` and ``after``."""
    enabled = facts.enabled if facts.enabled is None else desired.enabled
    before = [f"active: {facts.active}", f"enabled: {facts.enabled}"]
    after = [f"active: {'active' if desired.running else 'inactive'}", f"enabled: {enabled}"]
    after += [f"systemctl {verb}" for verb in made.verbs] + [f"because {reason}" for reason in made.reasons]
    return {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"} if made.verbs else {}
