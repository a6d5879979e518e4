# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Tears down a job's part on this node: unmount, stop, remove, and verify that nothing is left.

The epilog, a failed start and the sweep use it. Each step has a timeout and runs even if the one before it failed; what
is left is reported. The parts are found on the machine itself, not in the current settings, which may have changed.

Nodes do not coordinate their order, and a client hangs at its unmount if its servers are gone, because it cannot write
its remaining data. So each node unmounts first, and keeps its daemons running until the management daemon lists no
client any more, for at most 20 s.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.run import run as run_command
from . import layout, units
from .beegfs import release_of
from .job import Bounded
from .layout import Holding
from .mounting import Clock, Kill, Pause, mount_of_job, unmount

CLIENTS_S = 20.0
_PAUSE_S = 1.0
_REMOVE_S = 90.0


@dataclass(frozen=True)
class Machine:
    """The machine on which a stop works.

    :ivar root: the root of the machine's files.
    :ivar run: runs commands.
    """

    root: Root
    run: Bounded = run_command
    kill: Kill = os.kill
    clock: Clock = time.monotonic
    pause: Pause = time.sleep


def stop(held: Holding, machine: Machine, wait_for_clients: bool = True) -> list[str]:
    """Tear down the job's parts on this node, and return messages about what is left.

    :param wait_for_clients: whether other nodes may still have it mounted.
    """
    root = machine.root
    problems: list[str] = []
    if mount_of_job(held.mount_point, root):
        problems += unmount(held.mount_point, root, machine.run, machine.kill, machine.clock, machine.pause)
    if held.daemons and wait_for_clients:
        _wait_for_clients(held, machine)
    problems += units.stop(held.job, root, machine.run)
    problems += _remove(held, machine)
    return problems


def verify(held: Holding, machine: Machine) -> list[str]:
    """Return messages about what is left of a job."""
    root = machine.root
    found = [f"{held.mount_point} is mounted"] if mount_of_job(held.mount_point, root) else []
    found += [f"process {pid} ({name}) of {owner} runs" for pid, name, owner in units.processes(held.job, root)]
    found += [f"{path} exists" for path in (held.data, layout.run_folder(held.job)) if root.exists(path)]
    return found


def _wait_for_clients(held: Holding, machine: Machine) -> None:
    release, folder = release_of(held.release), layout.run_folder(held.job)
    deadline = machine.clock() + CLIENTS_S
    while machine.clock() < deadline:
        # 0: no client is left. None: the management daemon has ended, so waiting is useless.
        if not release.clients(machine.root.at(folder), machine.run):
            return
        machine.pause(_PAUSE_S)


def _remove(held: Holding, machine: Machine) -> list[str]:
    """Remove data and configuration; keep data that is mounted or that a daemon uses."""
    root = machine.root
    if units.processes(held.job, root) or mount_of_job(held.mount_point, root):
        return [f"{held.data} is not removed, because it is in use"]
    stays = layout.remove_data(held, root, lambda command: machine.run(command, _REMOVE_S))
    if stays:
        return [stays]
    try:
        layout.remove_run_folder(held.job, root)
    except OSError as error:
        return [f"cannot remove {layout.run_folder(held.job)}: {error.strerror}"]
    return []
