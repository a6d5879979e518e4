# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What finished jobs left behind: processes, files in memory and in /tmp, containers, huge pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...machine.config import read_config
from ...machine.kernel import read_meminfo
from ...machine.owners import OwnedProcess, live_jobs, of_live_jobs, read_files, read_owned
from ...machine.root import Root
from ...setup.containers.options import CONFIG, options_of
from ...setup.containers.user_folders import leftovers
from ..check import EPILOG, FAIL, PERIODIC, REBOOT, UNKNOWN, USER, WARN, Answer, Check, Context, Finding, Reading

_FIRST, _LAST = 1000, 60000
"""User ids of people, as login.defs has UID_MIN and UID_MAX."""
_FOLDERS = ("/dev/shm", "/tmp")
_LOGIN = ("sshd", "sshd-session", "login")
_SERVICE = re.compile(r"/system\.slice/(?!slurm)[^/\n]+\.(service|socket)|/init\.scope", re.MULTILINE)
_STUCK = "stuck"
_BEEOND_LEFTOVERS = "/run/hpcai/beeond.left"
"""The same path as in job/beeond/layout.py, which must not be imported here; a test compares them."""
_MOST_NAMED = 5


@dataclass(frozen=True)
class _People:
    """Users who may have processes and files on the node.

    :ivar first: the lowest user id of a person.
    :ivar present: the users who have a job here, or are logged in.
    """

    first: int
    present: frozenset[int]

    def is_gone(self, uid: int) -> bool:
        """Return whether it is a user who has no job here and is not logged in."""
        return self.first <= uid <= _LAST and uid not in self.present


def _measure(context: Context) -> Answer:
    root = context.root
    processes = read_owned(root)
    if not processes:
        return Answer(findings=(Finding(UNKNOWN, "/proc shows no process: run it as root"),))
    live = of_live_jobs(processes)
    users = {processes[pid].uid for pid in live} | {one.uid for one in processes.values() if one.name in _LOGIN}
    people = _People(context.option(LEFTOVERS, "first_uid"), frozenset(users))
    stuck = [one for one in processes.values() if one.job is not None and one.pid not in live]
    leftover = [
        one
        for one in processes.values()
        if one.pid not in live and one not in stuck and people.is_gone(one.uid) and not _SERVICE.search(one.groups)
    ]
    folders: Sequence[str] = context.option(LEFTOVERS, "folders")
    files = [file for file in read_files(root, folders) if people.is_gone(file.uid)]
    file_bytes = sum(file.size_bytes for file in files)
    findings = [*_judge_stuck(context, stuck), *_judge_processes(leftover)]
    if files:
        words = f"{len(files)} files of users without a job ({file_bytes / 2**30:.1f} GiB): " + _some(
            file.path for file in files
        )
        findings.append(Finding(WARN, words, hint="Remove them in an epilog, or ask their users", cause=USER))
    findings += _segments(root, people)
    findings += _containers(root)
    findings += _beeond(root)
    huge = _huge_pages(read_meminfo(root))
    if huge and not live_jobs(processes):
        words = f"{huge} MiB of huge pages are in use, but no job runs"
        findings.append(Finding(WARN, words, hint="Look for files in /dev/hugepages and for processes", cause=USER))
    return Answer(
        good="finished jobs left nothing behind",
        readings=(
            Reading("leftover_processes", len(leftover) + len(stuck), limit=0, at_most=True),
            Reading("leftover_files", len(files), limit=0, at_most=True),
            Reading("leftover_bytes", file_bytes, "B"),
        ),
        findings=tuple(findings),
        limit="nothing of users without a job here who are not logged in",
    )


def _judge_stuck(context: Context, stuck: Sequence[OwnedProcess]) -> Iterator[Finding]:
    """Yield findings for processes that Slurm could not kill: their job's steps are gone, but two runs found them."""
    before = context.history.get(_STUCK) or []
    context.history.keep(_STUCK, [f"{one.pid}:{one.started}" for one in stuck])
    for one in stuck:
        what = f"process {one.pid} ({one.name}, state {one.state}) of job {one.job}"
        if f"{one.pid}:{one.started}" in before:
            hint = "A process in state D waits for a device or a server: restart the machine if it does not end"
            yield Finding(FAIL, f"{what} still exists: Slurm could not kill it", hint=hint, action=REBOOT)
        else:
            yield Finding(WARN, f"{what} still exists, but the job has finished", cause=USER)


def _judge_processes(leftover: Sequence[OwnedProcess]) -> Iterator[Finding]:
    by_user: dict[int, list[OwnedProcess]] = {}
    for one in leftover:
        by_user.setdefault(one.uid, []).append(one)
    for uid, theirs in sorted(by_user.items()):
        words = f"{len(theirs)} processes of user {uid}, who has no job here: " + _some(
            f"{one.name} ({one.pid})" for one in theirs
        )
        yield Finding(WARN, words, hint=f"Kill them with 'pkill -u {uid}'", cause=USER)


def _segments(root: Root, people: _People) -> Iterator[Finding]:
    """Yield a finding for shared memory (System V) that no process has attached."""
    lines = (root.text("/proc/sysvipc/shm") or "").splitlines()
    names = lines[0].split() if lines else []
    rows = [dict(zip(names, line.split())) for line in lines[1:]]
    lost = [row for row in rows if row.get("nattch") == "0" and people.is_gone(int(row.get("uid", 0)))]
    if lost:
        words = f"{len(lost)} shared memory segments of users without a job: " + _some(
            f"{row['shmid']} (user {row['uid']})" for row in lost
        )
        yield Finding(WARN, words, hint="List them with 'ipcs -m', remove one with 'ipcrm -m ID'", cause=USER)


def _containers(root: Root) -> Iterator[Finding]:
    settings = read_config(root, CONFIG)
    if settings is None:
        return
    options = options_of(settings)
    leftover = leftovers(options.data_folder, options.pyxis_runtime_path, root)
    if leftover:
        words = f"{len(leftover)} containers and images of finished jobs: {_some(one.path for one in leftover)}"
        yield Finding(WARN, words, hint="'hpcnode boot run containers' removes them after a restart", cause=USER)


def _beeond(root: Root) -> Iterator[Finding]:
    """Yield a failure if ``hpcnode beeond sweep`` could not remove something: the next BeeOND job could not start."""
    problems = (root.text(_BEEOND_LEFTOVERS) or "").splitlines()
    if problems:
        words = f"the BeeGFS of a finished job cannot be removed: {_some(problems)}"
        yield Finding(FAIL, words, hint="Run 'hpcnode beeond sweep' again; restart the machine if that does not help")


def _huge_pages(memory: Mapping[str, int]) -> int:
    """Return how many MiB of huge pages are in use."""
    pages = memory.get("HugePages_Total", 0) - memory.get("HugePages_Free", 0)
    return pages * memory.get("Hugepagesize", 0) // 1024


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


LEFTOVERS = Check(
    name="leftovers",
    title="Leftovers of jobs",
    explain=(
        "Users who have no job on the node and are not logged in have nothing left on it: no processes, no files in "
        "/dev/shm and /tmp (option folders), no shared memory and no containers. If no job runs on the node, no huge "
        "pages are in use. The check only warns about such leftovers, because users cause them. It fails if a process "
        "of a finished job still exists in the next run: Slurm could not kill this process. It also fails if the "
        "BeeGFS of a finished job cannot be removed."
    ),
    tiers=(PERIODIC, EPILOG),
    measure=_measure,
    action=REBOOT,
    options={"first_uid": _FIRST, "folders": _FOLDERS},
)
