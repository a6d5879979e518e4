# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Apply the configuration on disk to slurmctld, with the smallest step that is enough."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..machine.root import Root
from ..machine.run import CommandFailed, Run, must, wait_until
from ..setup import daemon
from . import conf_changes, loaded_config
from .conf_changes import Change, Reload, Snapshot
from .job_control import jobs_on
from .releases import Release, in_version

SERVICE = "slurmctld"
FOLDER = "/etc/slurm"
RECONFIGURE = "reconfigure"
_ENVIRONMENTS = ("/etc/default/slurmctld", "/etc/sysconfig/slurmctld")


@dataclass(frozen=True)
class Facts:
    """slurmctld, and its files.

    :ivar process: the running process; None if there is none.
    :ivar held: the state of the files that this process has loaded; None if it is not known.
    :ivar on_disk: the current state of the files.
    """

    service: daemon.ServiceFacts
    process: loaded_config.Process | None
    held: Snapshot | None
    on_disk: Snapshot
    release: Release


@dataclass(frozen=True)
class Plan:
    """What to do.

    :ivar verbs: systemctl's verbs in order; or ``reconfigure``, which is scontrol's.
    :ivar reasons: why.
    :ivar losing: changes with which slurmctld would lose jobs.
    """

    verbs: tuple[str, ...]
    reasons: tuple[str, ...]
    losing: tuple[Change, ...] = ()


def read_release(run: Run) -> Release:
    """Return the installed release of Slurm; the oldest supported one if it cannot be found out."""
    return in_version(run(["scontrol", "--version"]).stdout)


def read_facts(root: Root, run: Run, folder: str = FOLDER) -> Facts:
    """Read the state of slurmctld and its files."""
    service = daemon.read_facts(SERVICE, [root.at(path) for path in _ENVIRONMENTS], run)
    process = loaded_config.process_of(SERVICE, root, run)
    on_disk = conf_changes.read_snapshot(root, folder)
    return Facts(service, process, _held(process, on_disk, root, folder), on_disk, read_release(run))


def preview(facts: Facts, pending: Mapping[str, str], root: Root, folder: str = FOLDER) -> tuple[Facts, dict[str, str]]:
    """Return the facts, and the digests of the shipped files, as if these files had been written; for check mode.

    :param pending: texts by file name; an empty text means that the file would be removed.
    """
    with tempfile.TemporaryDirectory() as made:
        future = Root(made)
        os.makedirs(future.at(folder))
        for name in conf_changes.SHIPPED_FILES:
            text = pending[name] if name in pending else root.text(f"{folder}/{name}")
            if text:
                with open(future.at(f"{folder}/{name}"), "w", encoding="utf-8") as file:
                    file.write(text)
        written = conf_changes.file_digests(future, folder)
        digests = {name: written[name] for name in written if name in pending}
        kept = {name: digest for name, digest in conf_changes.file_digests(root, folder).items() if name not in pending}
        return replace(facts, on_disk=conf_changes.read_snapshot(future, folder)), {**kept, **digests}


def _held(process: loaded_config.Process | None, on_disk: Snapshot, root: Root, folder: str) -> Snapshot | None:
    record = loaded_config.read_record(SERVICE, process, root)
    if record is not None:
        return Snapshot(record.get("entries", {}), record.get("nodes", {}), record.get("hardware", {}))
    if process and loaded_config.started_after(
        process, [f"{folder}/{name}" for name in conf_changes.SHIPPED_FILES], root
    ):
        return on_disk
    return None


def plan(facts: Facts, may_come: bool = False, pending: bool = False) -> Plan:
    """Return what to do. Pure.

    :param may_come, pending: see ``daemon.plan``.
    :raises CommandFailed: there is no such unit.
    """
    base = daemon.plan(facts.service, daemon.DesiredState(running=True, enabled=True), may_come, pending)
    if facts.process is None or facts.service.at_rest:
        return Plan(base.verbs, base.reasons)
    if facts.held is None:
        unknown = "it started before a file changed, and there is no record of the configuration that it has loaded"
        return Plan(_with("restart", base.verbs), (*base.reasons, unknown))
    changes = conf_changes.find_changes(facts.held, facts.on_disk, facts.release)
    reasons = tuple(f"{change.what} ({change.effect.source})" for change in changes if change.effect.slurmctld)
    losing = tuple(change for change in changes if change.effect.loses_jobs)
    need = max((change.effect.slurmctld for change in changes), default=Reload.NOTHING)
    if need is Reload.RESTART or "restart" in base.verbs:
        return Plan(_with("restart", base.verbs), base.reasons + reasons, losing)
    if need is Reload.RECONFIGURE:
        return Plan((*base.verbs, RECONFIGURE), base.reasons + reasons, losing)
    return Plan(base.verbs, base.reasons, losing)


def _with(verb: str, verbs: Sequence[str]) -> tuple[str, ...]:
    return tuple(verbs) if verb in verbs else (*verbs, verb)


def jobs_at_stake(losing: Sequence[Change], run: Run) -> dict[str, list[str]]:
    """Return the ids of the jobs that slurmctld would lose, by change.

    :raises CommandFailed: slurmctld does not list its jobs.
    """
    stakes = {}
    for change in losing:
        if change.nodes:
            jobs = [job.id for job in jobs_on(change.nodes, run)]
        else:
            partition = [f"--partition={change.partition}"] if change.partition else []
            jobs = must(run(["squeue", "--noheader", "--format=%i", *partition])).stdout.split()
        if jobs:
            stakes[change.what] = jobs
    return stakes


def apply(made: Plan, facts: Facts, timeout_s: float, root: Root, run: Run) -> None:
    """Apply the plan, wait until slurmctld answers, and record what it has loaded.

    :raises CommandFailed: slurmctld refused, stopped, or does not answer in time.
    """
    daemon.apply(SERVICE, daemon.Plan(tuple(verb for verb in made.verbs if verb != RECONFIGURE), made.reasons), run)
    if facts.service.at_rest:
        return
    if RECONFIGURE in made.verbs:
        answer = run(["scontrol", RECONFIGURE])
        problem = daemon.check_running(SERVICE, run)
        if problem:
            raise CommandFailed(f"slurmctld stopped with its new configuration. {problem}")
        must(answer)
    if not wait_until(lambda: run(["scontrol", "ping"]).rc == 0, timeout_s):
        problem = daemon.check_running(SERVICE, run) or "it runs; read its log file"
        raise CommandFailed(f"slurmctld does not answer after {timeout_s:g} s: {problem}")
    process = loaded_config.process_of(SERVICE, root, run)
    if process:
        snapshot = asdict(facts.on_disk)
        if process != facts.process or loaded_config.read_record(SERVICE, process, root) != snapshot:
            loaded_config.write_record(SERVICE, process, snapshot, root)


def for_slurmd(facts: Facts, files: Mapping[str, str], *, handed_out: bool = False) -> dict[str, Any]:
    """Return what the nodes' slurmd has to be compared with: the files, and the entries that need its restart.

    :param files: the digests of the shipped files.
    :param handed_out: whether the nodes get these files before they are checked; in check mode they do not.
    """
    return {
        "release": list(facts.release),
        "files": dict(files),
        "handed_out": handed_out,
        "part": conf_changes.restart_relevant(facts.on_disk, facts.release),
    }
