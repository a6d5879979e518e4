# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Starts a job's part on this node, and rolls everything back if the start fails.

Order: leftovers, this node's resources (scratch, InfiniBand, ports), configuration, daemons, the other nodes, mount,
RDMA, owner.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

from ...machine.atomic import write_file
from ...machine.mounts import is_full
from ...machine.root import Root
from ...machine.user_folders import FolderProblem
from .. import requeue
from ..requeue import Controller, JobStateUnknown
from . import layout, mounting, rendezvous, sweep, units
from .beegfs import SECRET, BeeGfs7, NodeRole, release_of
from .job import Job, JobGone, NodeFailure, PeerMissing, UsersFault, last_line
from .layout import BEEGFS, BIND, FILES, Holding
from .network import Ask, address_of, rdma_of, refuse_ports_in_use
from .options import REQUIRED, BeeondSettings
from .rendezvous import Peers, connects, join
from .stop import Machine, stop

_LOAD_S = 30.0
_LOGGED = 300
_LEAST_INODES = 1000


@dataclass(frozen=True)
class StartContext:
    """What a start needs from outside this machine.

    :ivar environment: the prolog's.
    :ivar ask_address: asks slurmctld for a node's address.
    :ivar controller: slurmctld, for requeuing the job.
    :ivar refuse_ports_in_use: refuses ports that are in use.
    :ivar connects: returns whether a server at an address accepts connections on a port.
    """

    environment: Mapping[str, str]
    ask_address: Ask
    controller: Controller
    refuse_ports_in_use: Callable[[tuple[tuple[str, int], ...]], None] = refuse_ports_in_use
    connects: Callable[[str, int], bool] = connects


@dataclass(frozen=True)
class Outcome:
    """The result of a start.

    :ivar good: whether the prolog may exit with 0: the file system is mounted, or the job will not run.
    :ivar started: whether the file system is mounted.
    :ivar words: one line.
    """

    good: bool
    started: bool
    words: str


def start(job: Job, settings: BeeondSettings, machine: Machine, context: StartContext) -> Outcome:
    """Start the job's file system, or make sure that the job does not run without it."""
    # A rollback removes only what this start created: None means that it has created nothing yet.
    held: Holding | None = None
    moved = ""
    try:
        moved = layout.make_root(settings.data_root, machine.root)
        problems = sweep.clean_before(job.number, settings, machine)
        if problems:
            raise NodeFailure(f"cannot remove what an earlier job left: {problems[0]}")
        _refuse_full(settings, machine.root)
        mounting.prepare(settings.mount_point, machine.root)
        held = _held(job, settings)
        _begin(held, machine.root)
        if job.is_alone:
            _bind_folder(job, held, machine)
        else:
            _start_beegfs(job, held, settings, machine, context)
    except UsersFault as lack:
        return _requeue(f"{job.node}: {lack}", job, _roll_back(held, machine), context, is_jobs_fault=True)
    except (NodeFailure, FolderProblem, OSError) as error:
        words = str(error)
        if isinstance(error, OSError):
            # For a file opened relative to a descriptor, the error has only the last part of the path.
            known = isinstance(error.filename, str) and os.path.isabs(error.filename)
            words = f"{error.filename if known else settings.data_root}: {error.strerror}"
        # Check this before the rollback frees space. A daemon that a full scratch ended may not have logged it.
        full = is_full(error) if isinstance(error, OSError) else _is_full(settings, machine.root)
        problems = _roll_back(held, machine)
        # The ports were free before the start, so a user's process took one before the daemon did.
        if full or os.strerror(errno.EADDRINUSE) in words:
            return _requeue(f"{job.node}: {words}", job, problems, context, is_jobs_fault=True)
        return Outcome(False, False, _with(words, problems))
    except JobGone as gone:
        return _without(str(gone), _roll_back(held, machine))
    except PeerMissing as missing:
        # Roll back first, so that nothing is left here when the job starts on other nodes.
        return _requeue(str(missing), job, _roll_back(held, machine), context)
    nodes = "this node" if job.is_alone else f"{len(job.nodes)} nodes"
    words = f"job {job.number} has {settings.mount_point} on {nodes}"
    return Outcome(True, True, f"{words}; warning: {moved}" if moved else words)


def _without(words: str, problems: list[str]) -> Outcome:
    return Outcome(not problems, False, _with(words, problems))


def _requeue(words: str, job: Job, problems: list[str], context: StartContext, is_jobs_fault: bool = False) -> Outcome:
    try:
        done = requeue.requeue(job, context.controller, words if is_jobs_fault else "")
        return _without(f"{words}; {done}", problems)
    except JobStateUnknown as error:
        return Outcome(False, False, _with(f"{words}; job {job.number} cannot be requeued: {error}", problems))


def _with(words: str, problems: list[str]) -> str:
    return f"{words}; the rollback left: {'; '.join(problems)}" if problems else words


def _roll_back(held: Holding | None, machine: Machine) -> list[str]:
    return stop(held, machine) if held else []


def _held(job: Job, settings: BeeondSettings) -> Holding:
    daemons: tuple[str, ...] = ()
    if not job.is_alone:
        daemons = release_of(settings.release).daemons(job.is_first, job.keeps_metadata(settings.metadata_nodes))
    return Holding(
        job=job.number,
        kind=BIND if job.is_alone else BEEGFS,
        mount_point=settings.mount_point,
        data=f"{settings.data_root}/{job.number}",
        data_root=settings.data_root,
        daemons=daemons,
        release=settings.release,
        since=time.time(),
    )


def _refuse_full(settings: BeeondSettings, root: Root) -> None:
    try:
        lack = _lack_of_space(settings, root)
    except OSError as error:
        scratch = os.path.dirname(settings.data_root)
        raise NodeFailure(f"{scratch}, needed for the job's data, is not available: {error.strerror}") from None
    if lack:
        raise UsersFault(lack)


def _is_full(settings: BeeondSettings, root: Root) -> bool:
    try:
        return bool(_lack_of_space(settings, root))
    except OSError:
        return False


def _lack_of_space(settings: BeeondSettings, root: Root) -> str:
    scratch = os.path.dirname(settings.data_root)
    found = os.statvfs(root.at(scratch))
    free = found.f_bavail * found.f_frsize // 2**20
    if free < settings.least_free_mib:
        return f"{scratch} has {free} MiB free, but beeond_least_free_mib is {settings.least_free_mib}"
    # Some file systems create inodes on demand, and report 0 in total.
    if found.f_files and found.f_favail < _LEAST_INODES:
        return f"{scratch} has {found.f_favail} inodes free, but a job needs {_LEAST_INODES}"
    return ""


def _begin(held: Holding, root: Root) -> None:
    """Record the job's parts before they are created, so that an epilog or a sweep finds them after an interruption."""
    layout.write_state(held, root)
    layout.make_data(held.job, held.data_root, root)


def _bind_folder(job: Job, held: Holding, machine: Machine) -> None:
    """Mount a folder of the job on the scratch at the same path, without BeeGFS."""
    with layout.make_inside(held.data, FILES, machine.root) as files:
        # Option -c: a canonicalized path could be replaced by a user; the open folder cannot.
        command = ("mount", "-c", "-o", "bind,nosuid,nodev", files.for_commands, held.mount_point)
        problem = mounting.mount(command, held.mount_point, machine.root, machine.run)
    if problem:
        raise NodeFailure(problem)
    mounting.give_to_user(held.mount_point, job.uid, job.gid, machine.run)


def _start_beegfs(job: Job, held: Holding, settings: BeeondSettings, machine: Machine, context: StartContext) -> None:
    root, release = machine.root, release_of(settings.release)
    deadline = machine.clock() + settings.wait_s(len(job.nodes))
    rdma = rdma_of(settings.rdma, root)
    context.refuse_ports_in_use(release.ports(held.daemons, settings))
    management = _address(job.nodes[0], root, context)
    role = NodeRole(held.daemons, management, held.data, layout.run_folder(job.number), rdma)
    _write(role, job, settings, release, root)
    loaded = machine.run(release.load(), _LOAD_S)
    if loaded.rc != 0:
        raise NodeFailure(f"cannot load the BeeGFS kernel module ('{' '.join(release.load())}': {last_line(loaded)})")
    for daemon in held.daemons:
        units.start(daemon, job.number, machine.run)
    watch = _watch(job, role, machine, context, release)
    rendezvous.wait(job, settings.metadata_nodes, max(0.0, deadline - machine.clock()), watch)
    others = [node for node in job.nodes if node != job.node]
    peers = Peers(others, lambda node: context.connects(_address(node, root, context), release.storage_port(settings)))
    join(release.mount(held.mount_point, role.folder), held.mount_point, deadline, watch, peers, root, machine.run)
    if rdma == REQUIRED:
        fallback = release.fell_back(held.mount_point, machine.run)
        if fallback:
            raise NodeFailure(f"{held.mount_point} does not use RDMA ({fallback}), but beeond_rdma requires it")
    mounting.give_to_user(held.mount_point, job.uid, job.gid, machine.run)


def _address(node: str, root: Root, context: StartContext) -> str:
    return address_of(node, context.environment, root, context.ask_address)


def _write(role: NodeRole, job: Job, settings: BeeondSettings, release: BeeGfs7, root: Root) -> None:
    for folder in release.folders(role):
        with layout.make_inside(role.data, os.path.basename(folder), root):
            pass
    write_file(root.at(f"{role.folder}/{SECRET}"), secret_of(job, root), 0o400)
    for name, text in release.files(role, settings).items():
        write_file(root.at(f"{role.folder}/{name}"), text, 0o600)


def _watch(job: Job, role: NodeRole, machine: Machine, context: StartContext, release: BeeGfs7) -> rendezvous.Watch:
    def dead() -> list[str]:
        ended = units.dead(role.daemons, job.number, machine.run)
        return [f"{daemon}: {_words_of(daemon, job, role, release, machine.root)}" for daemon in ended]

    return rendezvous.Watch(
        look=lambda: release.look(machine.root.at(role.folder), machine.run),
        dead=dead,
        gone=lambda: requeue.why_not_running(job, context.controller),
        clock=machine.clock,
        pause=machine.pause,
        host=socket.gethostname,
    )


def _words_of(daemon: str, job: Job, role: NodeRole, release: BeeGfs7, root: Root) -> str:
    """Return a daemon's last messages. Configuration errors are in the journal only, so the text refers to it."""
    log = root.text(f"{role.folder}/{daemon}.log") or ""
    reason = release.reason(log)
    if reason:
        return _printable(reason)[:_LOGGED]
    # A killed daemon has not logged a reason.
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    last = f"its last log line is '{_printable(lines[-1])[:_LOGGED]}'" if lines else "it wrote no log"
    return f"{last}: see 'journalctl -u {units.unit(daemon, job.number)}'"


def _printable(text: str) -> str:
    """Return text of a log with unprintable characters replaced by '?'."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


MUNGE_KEY = "/etc/munge/munge.key"
_DOMAIN = "hpcai.azure beeond connAuthFile 1"
"""Separates this use of the key from munge's own."""


def secret_of(job: Job, root: Root) -> str:
    """Return the text of the job's connAuthFile. Each node derives it from data that all nodes have.

    Only a process that can read the cluster's munge key can derive it. It differs for each job and incarnation, so that
    daemons left from an earlier one cannot connect.

    :raises NodeFailure: the cluster's key cannot be read.
    """
    try:
        with open(root.at(MUNGE_KEY), "rb") as file:
            key = file.read()
    except OSError as error:
        raise NodeFailure(
            f"cannot read {MUNGE_KEY}, from which the job's secret is derived: {error.strerror}"
        ) from None
    if not key:
        raise NodeFailure(f"{MUNGE_KEY}, from which the job's secret is derived, is empty")
    words = (_DOMAIN, job.number, str(job.restarts), *job.nodes)
    return hmac.new(key, "\0".join(words).encode(), hashlib.sha256).hexdigest() + "\n"
