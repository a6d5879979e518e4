# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's processes and threads, from /proc.

Processes may end while they are read: they are left out, which is not an error. Short files are read as bytes with one
system call, because there are several for every thread of the machine. So are command lines and environments: a process
chooses their addresses in its memory with prctl(2), PR_SET_MM_MAP, and with them any length. The kernel reads up to
``arg_end`` (get_mm_cmdline in fs/proc/base.c), which takes more than a second for each GiB.
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
# More than the size of stat and status on a machine with 8192 CPUs.
_SHORT = 1 << 15
# Up to Linux 4.1, the kernel itself ended command lines after one page of 4 KiB (commit c2c0bb44620d).
_LONGEST_COMMAND = 1 << 14
# execve(2) accepts more if the limit of the stack is large, but Slurm's variables and a shell's take some KiB.
_LONGEST_ENVIRONMENT = 1 << 18
# If each thread has a different mask, a longer list costs more time than it saves.
_MASKS_REMEMBERED = 4
_CPUS = re.compile(rb"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)
_MEMS = re.compile(rb"^Mems_allowed_list:\s*(\S*)", re.MULTILINE)
_PAGES = re.compile(rb"\bN(\d+)=(\d+)")
_PAGE_SIZE = re.compile(rb"\bkernelpagesize_kB=(\d+)")


class TaskStat(NamedTuple):
    """The ``stat`` of a process or thread.

    :ivar name: its name, at most 15 characters.
    :ivar state: one letter: R runs or waits for a CPU, S sleeps, D waits for a device, Z has ended.
    :ivar parent: process id of its parent.
    :ivar is_kernel_thread: whether it is a kernel thread.
    :ivar last_cpu: the CPU on which it ran last.
    """

    name: str
    state: str
    parent: int
    is_kernel_thread: bool
    last_cpu: int


class ThreadFacts(NamedTuple):
    """A thread: its id, the CPUs on which it may run (including offline ones in its mask), the last CPU, its state."""

    tid: int
    cpus: CpuSet
    last_cpu: int
    state: str


class Process(NamedTuple):
    """A process.

    :ivar command: the first 16 KiB of its command line, separated by spaces; its name if there is no command line, as
        after ``exit``.
    """

    pid: int
    parent: int
    name: str
    command: str


@dataclass(frozen=True)
class MemoryFacts:
    """The NUMA nodes of a process's own memory: anonymous and huge pages, not its programs and libraries.

    :ivar mib_by_node: MiB on each NUMA node with memory of the process.
    :ivar policies: its memory policies, e.g. ``default``, ``bind:0``, ``interleave:0-3``.
    """

    mib_by_node: dict[int, float]
    policies: tuple[str, ...]


def parse_stat(raw: bytes) -> TaskStat:
    """Parse a ``stat`` file.

    The name is in parentheses and may contain spaces and parentheses itself: the last one closes it.

    :raises ValueError: the text is not a ``stat`` file.
    """
    opening, closing = raw.find(b"("), raw.rfind(b")")
    fields = raw[closing + 2 :].split(None, 37)
    if opening < 0 or closing < opening or len(fields) < 37:
        raise ValueError("this is not a stat file of a task")
    # proc(5) counts fields from 1; fields[0] is the third field, after the name.
    return TaskStat(
        name=raw[opening + 1 : closing].decode(errors="replace"),
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        is_kernel_thread=bool(int(fields[6]) & _KERNEL_THREAD),
        last_cpu=int(fields[36]),
    )


def read_stat(root: Root, pid: int) -> TaskStat | None:
    """Return a process's ``stat``; None if there is no such process."""
    return _stat(root.at(f"/proc/{pid}/stat"))


def read_processes(root: Root, pids: Collection[int] | None = None) -> Iterator[Process]:
    """Yield all processes or the given ones, without kernel threads and those that have ended."""
    for pid, _path in root.numbered("/proc", "") if pids is None else ((pid, "") for pid in sorted(pids)):
        stat = read_stat(root, pid)
        if stat is None or stat.is_kernel_thread or stat.state in "ZX":
            continue
        yield Process(pid, stat.parent, stat.name, read_command(root, pid) or stat.name)


def read_command(root: Root, pid: int) -> str:
    """Return the first 16 KiB of a process's command line, separated by spaces; empty if there is none."""
    words = _read_start(root.at(f"/proc/{pid}/cmdline"), _LONGEST_COMMAND) or b""
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def children(root: Root, parent: int) -> list[int]:
    """Return the ids of a process's children that have not ended."""
    stats = ((pid, read_stat(root, pid)) for pid, _path in root.numbered("/proc", ""))
    return [pid for pid, stat in stats if stat is not None and stat.parent == parent and stat.state not in "ZX"]


def ancestors(root: Root, pid: int) -> set[int]:
    """Return a process's parent, grandparent, and so on, without the process itself."""
    found: set[int] = set()
    stat = read_stat(root, pid)
    while stat is not None and stat.parent > 0 and stat.parent not in found:
        found.add(stat.parent)
        stat = read_stat(root, stat.parent)
    return found


def read_threads(root: Root, pid: int) -> tuple[ThreadFacts, ...]:
    """Return a process's threads by id, its main thread (with the same id) first; none if the process has ended."""
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
    """Reads from ``status`` the CPUs on which threads of one process may run; parsed masks are cached."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._parsed: dict[bytes, CpuSet] = {}

    def of(self, tid: int) -> CpuSet | None:
        """Return a thread's CPUs, including offline ones; None if it has ended."""
        allowed = _CPUS.search(_read_start(f"{self._folder}/{tid}/status", _SHORT) or b"")
        if allowed is None:
            return None
        cpus = self._parsed.get(allowed[1])
        if cpus is None:
            cpus = self._parsed[allowed[1]] = CpuSet.parse_list(allowed[1].decode())
        return cpus


class _LiveMasks(_Masks):
    """The same for the running machine, with a system call that takes less than half of the time.

    The system call leaves out offline CPUs. So it only serves to compare a thread's mask with that of a thread whose
    ``status`` was read; nearly all threads have such a mask.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._known: list[tuple[set[int], CpuSet]] = []

    def of(self, tid: int) -> CpuSet | None:
        """Return a thread's CPUs, including offline ones; None if it has ended."""
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
    """Return the NUMA nodes from which a process may allocate memory; None if unknown."""
    allowed = _MEMS.search(_read_start(root.at(f"/proc/{pid}/status"), _SHORT) or b"")
    return CpuSet.parse_list(allowed[1].decode()) if allowed else None


def read_environment(root: Root, pid: int, names: Collection[str]) -> dict[str, str] | None:
    """Return the variables ``names`` from the first 256 KiB of the environment with which a process was started.

    None if it cannot be read, because the process is another user's or has ended.
    """
    raw = _read_start(root.at(f"/proc/{pid}/environ"), _LONGEST_ENVIRONMENT)
    if raw is None:
        return None
    pairs = (entry.decode(errors="replace").partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, _equals, value in pairs if name in names}


def read_open_files(root: Root, pid: int, folder: str) -> tuple[str, ...] | None:
    """Return the names of the files that a process has open directly in ``folder``.

    None if they cannot be read, because the process is another user's or has ended.
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
    """Return the NUMA nodes of a process's memory; None if that cannot be read.

    The kernel walks all pages of the process for this and blocks its memory management during that time, for about a
    second for a process with 100 GiB in small pages. So call it only if the user requests it.
    """
    try:
        with open(root.at(f"/proc/{pid}/numa_maps"), "rb") as file:
            raw = file.read()
    except OSError:
        return None
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
    raw = _read_start(path, _SHORT)
    try:
        return parse_stat(raw) if raw else None
    except ValueError:
        return None


def _read_start(path: str, most: int) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, most)
    except OSError:
        # The task ended between the two calls.
        return None
    finally:
        os.close(descriptor)
