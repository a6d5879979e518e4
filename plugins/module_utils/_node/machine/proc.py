# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's processes and threads, out of /proc.

Processes come and go while they are read: whatever vanishes in between is left out, and is no error. Each file is read
as bytes by one system call where it is short, for there is one of each kind for every thread of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .cpuset import CpuSet
from .root import Root

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD among a task's flags (include/linux/sched.h)."""
# More than stat and status hold on a machine of 8192 CPUs.
_SHORT = 1 << 15
# Where each thread has a mask of its own, remembering more of them costs more than it saves.
_MASKS_REMEMBERED = 4
_CPUS = re.compile(rb"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)
_MEMS = re.compile(rb"^Mems_allowed_list:\s*(\S*)", re.MULTILINE)
_PAGES = re.compile(rb"\bN(\d+)=(\d+)")
_PAGE_SIZE = re.compile(rb"\bkernelpagesize_kB=(\d+)")


class TaskStat(NamedTuple):
    """What ``stat`` says of a process or thread.

    :ivar name: its own name, at most 15 characters.
    :ivar state: one letter: R runs or waits for a CPU, S sleeps, D waits for a device, Z has ended.
    :ivar parent: process id of its parent.
    :ivar is_kernel_thread: it is the kernel's own.
    :ivar last_cpu: the CPU it ran on last.
    """

    name: str
    state: str
    parent: int
    is_kernel_thread: bool
    last_cpu: int


class ThreadFacts(NamedTuple):
    """A thread: its id, the CPUs it may run on (offline ones too, if it asked for them), the last one, its state."""

    tid: int
    cpus: CpuSet
    last_cpu: int
    state: str


class Process(NamedTuple):
    """A process as a search finds it.

    :ivar command: its command line with spaces between; its name where there is none, as after ``exit``.
    """

    pid: int
    parent: int
    name: str
    command: str


@dataclass(frozen=True)
class MemoryFacts:
    """Where a process's own memory lies: anonymous and huge pages, not its programs and libraries.

    :ivar mib_by_node: MiB on each NUMA node that has any.
    :ivar policies: its memory policies, e.g. ``default``, ``bind:0``, ``interleave:0-3``.
    """

    mib_by_node: dict[int, float]
    policies: tuple[str, ...]


def parse_stat(raw: bytes) -> TaskStat:
    """Return what a ``stat`` file says.

    The name stands in parentheses and may hold spaces and parentheses itself: the last one closes it.

    :raises ValueError: it is no such file.
    """
    opening, closing = raw.find(b"("), raw.rfind(b")")
    fields = raw[closing + 2 :].split(None, 37)
    if opening < 0 or closing < opening or len(fields) < 37:
        raise ValueError("this is no stat file of a task")
    # proc(5) counts from 1, and the name is the second: fields[0] is the third.
    return TaskStat(
        name=raw[opening + 1 : closing].decode(errors="replace"),
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        is_kernel_thread=bool(int(fields[6]) & _KERNEL_THREAD),
        last_cpu=int(fields[36]),
    )


def read_stat(root: Root, pid: int) -> TaskStat | None:
    """Return what a process's ``stat`` says; None if there is no such process."""
    return _stat(root.at(f"/proc/{pid}/stat"))


def read_processes(root: Root, pids: Collection[int] | None = None) -> Iterator[Process]:
    """Yield the processes that run, all or those given, without the kernel's threads and those that have ended."""
    for pid, _path in root.numbered("/proc", "") if pids is None else ((pid, "") for pid in sorted(pids)):
        stat = read_stat(root, pid)
        if stat is None or stat.is_kernel_thread or stat.state in "ZX":
            continue
        words = _read(root.at(f"/proc/{pid}/cmdline")) or b""
        command = words.replace(b"\0", b" ").decode(errors="replace").strip()
        yield Process(pid, stat.parent, stat.name, command or stat.name)


def ancestors(root: Root, pid: int) -> set[int]:
    """Return a process's parent, grandparent, and so on, without the process itself."""
    found: set[int] = set()
    stat = read_stat(root, pid)
    while stat is not None and stat.parent > 0 and stat.parent not in found:
        found.add(stat.parent)
        stat = read_stat(root, stat.parent)
    return found


def read_threads(root: Root, pid: int) -> tuple[ThreadFacts, ...]:
    """Return a process's threads by id, its main thread (of the same id) first; none if the process is gone."""
    folder = root.at(f"/proc/{pid}/task")
    try:
        tids = sorted(map(int, filter(str.isdecimal, os.listdir(folder))), key=lambda tid: (tid != pid, tid))
    except OSError:
        return ()
    masks = _LiveMasks(folder) if root.is_this_machine else _Masks(folder)
    threads = []
    for tid in tids:
        stat = _stat(f"{folder}/{tid}/stat")
        cpus = masks.of(tid) if stat and stat.state not in "ZX" else None
        if stat and cpus is not None:
            threads.append(ThreadFacts(tid, cpus, stat.last_cpu, stat.state))
    return tuple(threads)


class _Masks:
    """The CPUs that threads of one process may run on, by their ``status``; mostly the same few."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._parsed: dict[bytes, CpuSet] = {}

    def of(self, tid: int) -> CpuSet | None:
        """Return a thread's CPUs, offline ones too; None if it is gone."""
        allowed = _CPUS.search(_read_short(f"{self._folder}/{tid}/status") or b"")
        if allowed is None:
            return None
        cpus = self._parsed.get(allowed[1])
        if cpus is None:
            cpus = self._parsed[allowed[1]] = CpuSet.parse_list(allowed[1].decode())
        return cpus


class _LiveMasks(_Masks):
    """The same of the running machine, where a system call tells it for less than half of the time.

    It leaves offline CPUs out. So a thread is only asked by it whether it has the mask of one whose ``status`` was
    read, and that is how nearly all are.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._known: list[tuple[set[int], CpuSet]] = []

    def of(self, tid: int) -> CpuSet | None:
        """Return a thread's CPUs, offline ones too; None if it is gone."""
        try:
            active = os.sched_getaffinity(tid)
        except OSError:
            return None
        for known, cpus in self._known:
            if active == known:
                return cpus
        written = super().of(tid)
        if written is not None and len(self._known) < _MASKS_REMEMBERED:
            self._known.append((active, written))
        return written


def read_memory_nodes(root: Root, pid: int) -> CpuSet | None:
    """Return the NUMA nodes that a process may take memory from; None where the kernel does not say."""
    allowed = _MEMS.search(_read_short(root.at(f"/proc/{pid}/status")) or b"")
    return CpuSet.parse_list(allowed[1].decode()) if allowed else None


def read_environment(root: Root, pid: int, names: Collection[str]) -> dict[str, str] | None:
    """Return the variables called ``names`` out of the environment that a process started with.

    None if it cannot be read: it is somebody else's, or gone.
    """
    raw = _read(root.at(f"/proc/{pid}/environ"))
    if raw is None:
        return None
    pairs = (entry.decode(errors="replace").partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, _equals, value in pairs if name in names}


def read_open_files(root: Root, pid: int, folder: str) -> tuple[str, ...] | None:
    """Return the names of the files that a process has open directly in ``folder``.

    None if they cannot be read: it is somebody else's, or gone.
    """
    descriptors = root.at(f"/proc/{pid}/fd")
    try:
        numbers = os.listdir(descriptors)
    except OSError:
        return None
    found = set()
    for number in numbers:
        try:
            path = os.readlink(f"{descriptors}/{number}")
        except OSError:
            continue
        if os.path.dirname(path) == folder:
            found.add(os.path.basename(path))
    return tuple(sorted(found))


def read_memory(root: Root, pid: int) -> MemoryFacts | None:
    """Return where a process's memory lies; None if that cannot be read.

    The kernel walks all of the process's pages for the answer and holds up its memory management meanwhile: a second or
    so for a process of a hundred GiB in small pages. So nobody gets it who does not ask for it.
    """
    raw = _read(root.at(f"/proc/{pid}/numa_maps"))
    if not raw:
        return None
    kib: dict[int, int] = {}
    policies = set()
    for line in raw.splitlines():
        words = line.split(None, 2)
        if len(words) < 2 or (b" file=" in line and b" huge" not in line):
            continue
        size = _PAGE_SIZE.search(line)
        pages = _PAGES.findall(line)
        if pages:
            policies.add(words[1].decode(errors="replace"))
        for node, count in pages:
            kib[int(node)] = kib.get(int(node), 0) + int(count) * (int(size[1]) if size else 4)
    return MemoryFacts({node: amount / 1024 for node, amount in sorted(kib.items())}, tuple(sorted(policies)))


def _stat(path: str) -> TaskStat | None:
    raw = _read_short(path)
    try:
        return parse_stat(raw) if raw else None
    except ValueError:
        return None


def _read_short(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _SHORT)
    except OSError:
        # The task ended between the two calls.
        return None
    finally:
        os.close(descriptor)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
