# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Keep a systemd service running with the configuration that is on disk.

Whether a service must be restarted is read from the machine: is one of its files newer than its main process? Nothing
has to be remembered between the change of a file and the restart, so after an interrupted run, the next run still
restarts the service.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..machine.run import CommandFailed, Result, Run, must

RUNNING = "/run/systemd/system"
"""Exists if systemd is the first process (sd_booted(3))."""
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
# The ActiveState of a service that fails repeatedly is "activating" between two attempts, as if it were starting.
_FAILING_SUBSTATES = ("auto-restart", "auto-restart-queued")
DROP_INS = "/etc/systemd/system"
# UnitFileStates of units that cannot be enabled or disabled, e.g. because another unit always starts them.
_NOT_SWITCHABLE = ("static", "alias", "generated", "transient", "indirect")


@dataclass(frozen=True)
class ServiceFacts:
    """A service in systemd, and the age of its files.

    :ivar loaded: systemd knows the unit, and it is not masked.
    :ivar active: systemd's ActiveState; its SubState for a service that fails repeatedly.
    :ivar enabled: whether it starts at boot; None if it cannot be enabled or disabled.
    :ivar started_at: when the main process started, in seconds since the epoch; None if it does not run.
    :ivar newest_file: path and modification time (seconds since the epoch) of the newest watched file; None if no
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
        """Whether systemd does not know the unit: its package is not installed, or does not contain it."""
        return self.load_state == "not-found"


@dataclass(frozen=True)
class DesiredState:
    """The wanted state of the service."""

    running: bool
    enabled: bool


@dataclass(frozen=True)
class Plan:
    """systemctl's verbs in order, and the reasons for them."""

    verbs: tuple[str, ...]
    reasons: tuple[str, ...]


def plan(facts: ServiceFacts, desired: DesiredState, may_come: bool = False, pending: bool = False) -> Plan:
    """Return what to do to the service. Pure.

    :param may_come: whether the unit may be installed before the plan is applied, as in check mode, where earlier tasks
        installed nothing. Then a unit that systemd does not know is not an error.
    :param pending: whether a file of the service would be written first, as in check mode, where it was not written.
    :raises CommandFailed: the unit does not exist or is masked, although it should run.
    """
    verbs: list[str] = []
    reasons: list[str] = []
    if not facts.loaded and (desired.running or desired.enabled):
        if may_come and facts.unknown:
            steps = (("enable", desired.enabled), ("restart", desired.running))
            return Plan(tuple(verb for verb, needed in steps if needed), (f"systemd does not know {facts.name} yet",))
        raise CommandFailed(
            f"systemd cannot load {facts.name} (LoadState={facts.load_state}): install the package that contains it, "
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
        reasons.append(f"{facts.newest_file[0]} is newer than the running process")
    elif pending:
        verbs.append("restart")
        reasons.append("one of its files would be written first")
    return Plan(tuple(verbs), tuple(reasons))


def read_facts(name: str, watched: Iterable[str], run: Run) -> ServiceFacts:
    """Read the state of the service ``name`` from systemd and the file system.

    :param watched: files and folders whose change requires a restart. A folder's entries count, and the folder itself,
        so that a removed file is noticed. The unit's own files and drop-ins always count.
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
        needs_daemon_reload=shown.get("NeedDaemonReload") == "yes" or _has_unread_drop_ins(name, unit_files),
    )


def _has_unread_drop_ins(name: str, known: Sequence[str]) -> bool:
    """Whether there are drop-ins that systemd has not read.

    Before release 254, NeedDaemonReload is "no" after the first drop-in of a loaded unit, because systemd looks for its
    folder in a list from its last reload (unit_path_cache in unit_find_dropin_paths).
    """
    folder = f"{DROP_INS}/{name if '.' in name else f'{name}.service'}.d"
    with contextlib.suppress(OSError):
        paths = [f"{folder}/{file}" for file in os.listdir(folder) if file.endswith(".conf")]
        # systemd does not list a drop-in that is masked by a link to /dev/null.
        return any(path not in known and os.path.realpath(path) != os.devnull for path in paths)
    return False


def _read_at_rest(name: str, refusal: Result, run: Run) -> ServiceFacts:
    """Read what is possible without a running systemd: systemctl itself reads the unit files."""
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
    # Without "%a" and "%Z": they expect names in this process's locale, which Ansible sets to the user's.
    date, time = text.split()[1:3]
    return datetime.strptime(f"{date} {time}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()


def newest(paths: Iterable[str]) -> tuple[str, float] | None:
    """Return the newest of the files and folder entries, with its modification time; None if none exists."""
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
    """Apply the plan.

    :raises CommandFailed: systemctl refused, or the service stopped again; the message ends with its last log lines.
    """
    for verb in planned.verbs:
        result = run(["systemctl", verb] if verb == "daemon-reload" else ["systemctl", verb, name])
        if result.rc != 0 and verb == "restart":
            raise CommandFailed(f"'systemctl restart {name}' failed: {_last_words(name, result.stderr, run)}")
        must(result)


def check_running(name: str, run: Run) -> str | None:
    """Return None if the service runs, else its state and its last log lines."""
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
    # Only slurmctld has the verb "reconfigure", and its module runs scontrol for it.
    after += [f"{'scontrol' if verb == 'reconfigure' else 'systemctl'} {verb}" for verb in made.verbs] + [
        f"because {reason}" for reason in made.reasons
    ]
    return {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"} if made.verbs else {}
