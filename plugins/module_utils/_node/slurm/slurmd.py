# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Apply the configuration to a node's slurmd without disturbing jobs; report its files and the node's hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.owners import any_slurmstepd
from ..machine.root import Root
from ..machine.run import CommandFailed, Run, wait_until
from ..setup import daemon
from . import conf_changes, hardware, loaded_config, slurmctld, slurmd_env
from .conf_changes import Change
from .releases import Release

SERVICE = "slurmd"
HELD = "/var/lib/slurm/slurmd/conf-cache"
"""Where slurmd caches the files that it fetched: ``conf-cache`` in the SlurmdSpoolDir that the role sets."""
_FETCH_S = 120.0
"""Seconds after its start in which slurmd may still be fetching its files; newer files came with a reconfigure."""
_CACHE_S = 10.0
"""How long to wait for the fetched files after a restart."""


@dataclass(frozen=True)
class Facts:
    """slurmd of a node.

    :ivar node: its name in Slurm; empty if it has none yet.
    :ivar held: the entries that need a restart, as they were when the process started; None if not known.
    :ivar expected: the same entries as they are now; None if neither the controller nor the cache has them.
    :ivar has_jobs: a job's step runs here.
    """

    service: daemon.ServiceFacts
    process: loaded_config.Process | None
    node: str
    held: Mapping[str, str] | None
    expected: Mapping[str, str] | None
    release: Release
    has_jobs: bool


@dataclass(frozen=True)
class Plan:
    """What to do.

    :ivar verbs: systemctl's verbs in order.
    :ivar reasons: why.
    :ivar waits: why slurmd should be restarted, but must wait until jobs end.
    """

    verbs: tuple[str, ...]
    reasons: tuple[str, ...]
    waits: tuple[str, ...] = ()


def read_facts(files: Sequence[str], controller: Mapping[str, Any], root: Root, run: Run, held: str = HELD) -> Facts:
    """Read the state of slurmd: what it has loaded, and what it should have loaded.

    :param controller: the result of ``slurmctld.for_slurmd``; empty if the controller was not asked.
    """
    service = daemon.read_facts(SERVICE, [root.at(path) for path in files], run)
    process = loaded_config.process_of(SERVICE, root, run)
    stated = controller.get("release")
    release = (int(stated[0]), int(stated[1])) if stated else slurmctld.read_release(run)
    env = slurmd_env.read(root)
    node = env.node_name if env else ""
    held_entries = _read_held(node, release, root, held)
    expected = conf_changes.restart_relevant_for(controller["part"], node) if controller.get("part") else held_entries
    started_with = _started_with(process, held_entries, root, held)
    return Facts(service, process, node, started_with, expected, release, _has_jobs(root))


def _read_held(node: str, release: Release, root: Root, held: str) -> dict[str, str] | None:
    if not root.exists(f"{held}/slurm.conf"):
        return None
    relevant = conf_changes.restart_relevant(conf_changes.read_snapshot(root, held), release)
    return conf_changes.restart_relevant_for(relevant, node)


def _started_with(
    process: loaded_config.Process | None, held_entries: dict[str, str] | None, root: Root, held: str
) -> dict[str, str] | None:
    record = loaded_config.read_record(SERVICE, process, root)
    if record is not None:
        return record
    files = [f"{held}/{name}" for name in conf_changes.SHIPPED_FILES]
    return held_entries if process and loaded_config.started_after(process, files, root, grace_s=_FETCH_S) else None


def _has_jobs(root: Root) -> bool:
    """Whether a step runs: each has a slurmstepd, which continues without slurmd."""
    return any_slurmstepd(root)


def plan(facts: Facts, may_come: bool = False, pending: bool = False) -> Plan:
    """Return what to do. Pure.

    :param may_come, pending: see ``daemon.plan``.
    :raises CommandFailed: there is no such unit.
    """
    base = daemon.plan(facts.service, daemon.DesiredState(running=True, enabled=True), may_come, pending)
    if facts.process is None or facts.service.at_rest or facts.expected is None:
        return Plan(base.verbs, base.reasons)
    if facts.held is None:
        reason = "it was reconfigured since its start, and there is no record of the configuration that it started with"
        return Plan(_with_restart(base.verbs), (*base.reasons, reason))
    changes = conf_changes.restart_changes(facts.held, facts.expected, facts.node, facts.release)
    reasons = tuple(f"{change.what} ({change.effect.source})" for change in changes)
    if facts.has_jobs and any(change.effect.needs_idle_node for change in changes):
        # No restart for another reason either, because it would also apply this change.
        verbs = tuple(verb for verb in base.verbs if verb != "restart")
        return Plan(verbs, base.reasons if verbs else (), tuple(_waiting(changes)))
    return Plan(_with_restart(base.verbs) if changes else base.verbs, base.reasons + reasons)


def _waiting(changes: Sequence[Change]) -> list[str]:
    return [f"{change.what} and needs a node without jobs" for change in changes if change.effect.needs_idle_node]


def _with_restart(verbs: Sequence[str]) -> tuple[str, ...]:
    return tuple(verbs) if "restart" in verbs else (*verbs, "restart")


def apply(made: Plan, facts: Facts, settle_s: float, root: Root, run: Run, held: str = HELD) -> None:
    """Apply the plan, and record what slurmd started with.

    :raises CommandFailed: slurmd stopped again.
    """
    daemon.apply(SERVICE, daemon.Plan(made.verbs, made.reasons), run)
    if facts.service.at_rest:
        return
    if "restart" in made.verbs:
        problem = daemon.check_running(SERVICE, run)
        if not problem:
            wait_until(lambda: daemon.check_running(SERVICE, run) is not None, settle_s)
            problem = daemon.check_running(SERVICE, run)
        if problem:
            raise CommandFailed(problem)
    process = loaded_config.process_of(SERVICE, root, run)
    if process is None:
        return
    started_with = facts.held
    if process != facts.process:
        started_with = _fetched(process, facts.node, facts.release, root, held)
    if started_with is not None and loaded_config.read_record(SERVICE, process, root) != dict(started_with):
        loaded_config.write_record(SERVICE, process, dict(started_with), root)


def record_start(root: Root, run: Run, held: str = HELD) -> bool:
    """Record what a slurmd that has just started has loaded; return whether it fetched its files in time.

    slurmd's unit calls it, because later, after a reconfigure, nobody can find out what slurmd started with.
    """
    process = loaded_config.process_of(SERVICE, root, run)
    if process is None:
        return False
    env = slurmd_env.read(root)
    started_with = _fetched(process, env.node_name if env else "", slurmctld.read_release(run), root, held)
    if started_with is None:
        return False
    loaded_config.write_record(SERVICE, process, started_with, root)
    return True


def _fetched(
    process: loaded_config.Process, node: str, release: Release, root: Root, held: str
) -> dict[str, str] | None:
    """Return what a new process has fetched; None if no controller answered in time."""
    files = [f"{held}/slurm.conf"]

    def is_over() -> bool:
        return not loaded_config.started_after(process, files, root) or not root.exists(f"/proc/{process.pid}/stat")

    wait_until(is_over, _CACHE_S)
    if loaded_config.started_after(process, files, root):
        return None
    return _read_held(node, release, root, held)


def describe(made: Plan, facts: Facts, root: Root, run: Run, held: str = HELD) -> dict[str, Any]:
    """Return what the controller compares: files, hardware, and why slurmd waits for its restart."""
    try:
        counts = hardware.read_counts(run)
    except CommandFailed:
        counts = {}
    missing = hardware.missing_files(root.text(f"{held}/gres.conf") or "", facts.node, root)
    return {
        "held": conf_changes.file_digests(root, held),
        "hardware": counts,
        "missing_files": missing,
        "waits": list(made.waits),
    }
