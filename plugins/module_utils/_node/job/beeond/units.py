# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The systemd units of a job's daemons: one template for each daemon, one unit instance for each job.

systemd tracks all processes of a daemon by its control group. So a stop ends all of them, even if the daemon ignores
SIGTERM, and affects no other BeeGFS on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...machine.cgroup import system_groups
from ...machine.root import Root
from .job import Bounded, NodeFailure, last_line

DAEMONS = ("mgmtd", "meta", "storage", "helperd")
STOP_S = 10
"""Seconds between SIGTERM and SIGKILL."""
_START_S, _ASK_S = 20.0, 10.0
_PREFIX = "hpcai-beeond-"
_TEXT = """\
# Written by the role hpcai.azure.beeond, which overwrites it.
[Unit]
Description=BeeOND {daemon} of job %i
# The configuration is gone after a reboot; then the daemon must not start.
ConditionPathExists=/run/hpcai/beeond/%i/{daemon}.conf
CollectMode=inactive-or-failed

[Service]
Type=exec
ExecStart={command}
KillMode=control-group
TimeoutStopSec={stop_s}
Restart=no
LimitNOFILE=infinity
# RDMA locks its buffers in memory.
LimitMEMLOCK=infinity
NoNewPrivileges=yes
"""


def template(daemon: str) -> str:
    """Return the name of a daemon's template."""
    return f"{_PREFIX}{daemon}@.service"


def unit(daemon: str, job: str) -> str:
    """Return the name of a daemon's unit for a job."""
    return f"{_PREFIX}{daemon}@{job}.service"


def template_texts(commands: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each template by its name.

    :param commands: command lines by daemon.
    """
    return {
        template(daemon): _TEXT.format(daemon=daemon, command=command, stop_s=STOP_S)
        for daemon, command in commands.items()
    }


def start(daemon: str, job: str, run: Bounded) -> None:
    """Start a daemon.

    :raises NodeFailure: systemd cannot start it.
    """
    answer = run(["systemctl", "start", unit(daemon, job)], _START_S)
    if answer.rc != 0:
        raise NodeFailure(f"cannot start {unit(daemon, job)}: {last_line(answer)}")


def dead(daemons: Iterable[str], job: str, run: Bounded) -> list[str]:
    """Return the daemons that have ended."""
    names = list(daemons)
    answer = run(["systemctl", "is-active", *(unit(daemon, job) for daemon in names)], _ASK_S)
    states = answer.stdout.split()
    if len(states) != len(names):
        return []
    return [daemon for daemon, state in zip(names, states) if state in ("inactive", "failed", "deactivating")]


def loaded_jobs(run: Bounded) -> dict[str, list[str]]:
    """Return the daemons that systemd has loaded, by job."""
    answer = run(["systemctl", "list-units", "--all", "--plain", "--no-legend", f"{_PREFIX}*@*.service"], _ASK_S)
    found: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        name = (line.split() or [""])[0]
        daemon, at, rest = name[len(_PREFIX) :].partition("@")
        job = rest.rpartition(".service")[0]
        if name.startswith(_PREFIX) and at and job.isdecimal() and daemon in DAEMONS:
            found.setdefault(job, []).append(daemon)
    return found


def stop(job: str, root: Root, run: Bounded) -> list[str]:
    """Stop all daemons of a job, and return messages about processes that are left.

    systemd sends SIGTERM, then SIGKILL. The control groups show whether processes are left.
    """
    names = [unit(daemon, job) for daemon in DAEMONS]
    run(["systemctl", "stop", *names], STOP_S + 5.0)
    if processes(job, root):
        run(["systemctl", "kill", "--signal=SIGKILL", *names], _ASK_S)
        run(["systemctl", "stop", *names], STOP_S)
    survivors = processes(job, root)
    run(["systemctl", "reset-failed", *names], _ASK_S)
    return [f"cannot kill process {pid} ({name}) of {owner}" for pid, name, owner in survivors]


def processes(job: str, root: Root) -> list[tuple[int, str, str]]:
    """Return the processes in the control groups of the job's daemons: pid, name and unit of each."""
    names = [unit(daemon, job) for daemon in DAEMONS]
    found = []
    for pid, folder in root.numbered("/proc", ""):
        owner = _owner(root.text(f"{folder}/cgroup") or "", names)
        if owner and not _is_dead(root.text(f"{folder}/stat") or ""):
            found.append((pid, root.text(f"{folder}/comm") or "?", owner))
    return found


def _owner(groups: str, names: Sequence[str]) -> str:
    for line in system_groups(groups):
        for name in names:
            if f"/{name}/" in f"{line}/":
                return name
    return ""


def _is_dead(stat: str) -> bool:
    return stat.rpartition(")")[2].strip()[:1] in ("Z", "X")
