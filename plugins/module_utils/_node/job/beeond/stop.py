# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Taking a job's part down on this node: unmount, stop, remove, and see that nothing is left.

The epilog does it, a start that failed, and the sweep. Each step has a limit and is tried, whatever became of the one
before it; what is left is told. What was there is read off the machine, not off the settings of today.

Other nodes' order is nobody's to say, and a client whose servers are gone hangs when it is unmounted: what it still has
to write cannot be written. So each node unmounts first, and then leaves its daemons running until the management daemon
lists no client any more, for a while at most.
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
from .mounting import Clock, Kill, Pause, is_ours, mount_at, unmount

CLIENTS_S = 20.0
_PAUSE_S = 1.0
_REMOVE_S = 90.0


@dataclass(frozen=True)
class Machine:
    """What a stop works with.

    :ivar root: where the machine's files lie.
    :ivar run: what runs commands.
    """

    root: Root
    run: Bounded = run_command
    kill: Kill = os.kill
    clock: Clock = time.monotonic
    pause: Pause = time.sleep


def stop(held: Holding, machine: Machine, wait_for_clients: bool = True) -> list[str]:
    """Take down what the job holds here, and return what is left, in words; nothing if all is gone.

    :param wait_for_clients: whether other nodes may still have it mounted.
    """
    root = machine.root
    problems: list[str] = []
    mounted = mount_at(held.mount_point, root)
    if mounted and is_ours(mounted):
        problems += unmount(held.mount_point, root, machine.run, machine.kill, machine.clock, machine.pause)
    if held.daemons and wait_for_clients:
        _wait_for_clients(held, machine)
    problems += units.stop(held.job, root, machine.run)
    problems += _remove(held, machine)
    return problems


def verify(held: Holding, machine: Machine) -> list[str]:
    """Return what of a job is here, in words."""
    root = machine.root
    mounted = mount_at(held.mount_point, root)
    found = [f"{held.mount_point} is mounted"] if mounted and is_ours(mounted) else []
    found += [f"process {pid} ({name}) of {owner} runs" for pid, name, owner in units.processes(held.job, root)]
    found += [f"{path} is there" for path in (held.data, layout.run_folder(held.job)) if root.exists(path)]
    return found


def _wait_for_clients(held: Holding, machine: Machine) -> None:
    release, folder = release_of(held.release), layout.run_folder(held.job)
    deadline = machine.clock() + CLIENTS_S
    while machine.clock() < deadline:
        # None: the management daemon is gone, and whoever waits for it waits in vain.
        if not release.clients(machine.root.at(folder), machine.run):
            return
        machine.pause(_PAUSE_S)


def _remove(held: Holding, machine: Machine) -> list[str]:
    """Remove data and configuration; data that is mounted, or has a daemon on it, stays."""
    root = machine.root
    mounted = mount_at(held.mount_point, root)
    if units.processes(held.job, root) or (mounted and is_ours(mounted)):
        return [f"{held.data} stays, because it is in use"]
    stays = layout.remove_data(held, root, lambda command: machine.run(command, _REMOVE_S))
    if stays:
        return [stays]
    try:
        layout.remove_run_folder(held.job, root)
    except OSError as error:
        return [f"{layout.run_folder(held.job)} cannot be removed: {error.strerror}"]
    return []
