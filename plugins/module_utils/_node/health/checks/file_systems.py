# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""File systems: they have free space and inodes, and shared file systems are mounted and answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...machine.config import read_config
from ...machine.mounts import Mount, read_mounts, reserved_bytes
from ...setup.scratch.options import parse
from ...setup.shared_fs.mounting import CONFIG
from ..check import (
    BOOT,
    DEEP,
    EPILOG,
    FAIL,
    NODE,
    OBSERVE,
    PERIODIC,
    REBOOT,
    UNKNOWN,
    USER,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)

# File systems of the machine: they have free space and inodes, and can be written.
#
# Users can fill a file system to which they may write, so a full one is no reason to drain the node. They cannot use
# the part that ext4 reserves for root.

_SOURCE = "LBNL NHC, nhc.conf: check_fs_free / 5%, check_fs_ifree / 1k"
_SYSTEM = ("/", "/var")
_USERS = ("/tmp", "/var/tmp", "/dev/shm", "/home")
_LEAST_OF_RESERVE = 0.5
"""Share of root's reserve that must be free."""


@dataclass(frozen=True)
class _Limits:
    """The least that must be free.

    :ivar fail: percentage of the space; less fails.
    :ivar warn: percentage of the space and of the inodes; less warns.
    :ivar inodes: number of inodes; less fails.
    """

    fail: float
    warn: float
    inodes: int


def _measure_space(context: Context) -> Answer:
    option = context.option
    limits = _Limits(
        option(FREE_SPACE, "fail_percent"),
        option(FREE_SPACE, "warn_percent"),
        option(FREE_SPACE, "fail_inodes"),
    )
    scratch = parse(read_config(context.root, "scratch") or {}).mountpoint
    system: Sequence[str] = option(FREE_SPACE, "system")
    users: Sequence[str] = option(FREE_SPACE, "users", [*_USERS, scratch])
    mounts = read_mounts(context.root)
    readings: list[Reading] = []
    findings: list[Finding] = []
    judged: set[str] = set()
    shared = {_place(path, mounts) for path in users if context.root.exists(path)}
    for path in (*system, *users):
        mount, place = _mount_of(path, mounts), _place(path, mounts)
        if place in judged or not context.root.exists(path):
            continue
        judged.add(place)
        cause = USER if place in shared else NODE
        try:
            state = os.statvfs(context.root.at(path))
        except OSError as error:
            words = f"cannot read the free space of {place}: {error.strerror}"
            findings.append(Finding(UNKNOWN, words, place, cause=cause))
            continue
        findings += _judge(place, cause, state, limits, readings)
        if mount and cause == USER:
            findings += _judge_reserve(place, state, reserved_bytes(mount, context.root), readings)
        if mount and "ro" in mount.options:
            words = f"{place} is mounted read-only"
            hint = "The kernel does this after disk errors: see 'journalctl -k -b'; restart the machine"
            findings.append(Finding(FAIL, words, place, hint, REBOOT))
    if not judged:
        findings.append(Finding(UNKNOWN, f"none of {', '.join((*system, *users))} exists"))
    return Answer(
        good=f"{len(judged)} file systems have enough free space and inodes",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"{limits.fail:g} % of the space, {limits.inodes} inodes free ({_SOURCE}); below {limits.warn:g} % warns",
    )


def _mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of a path; the visible one, if several are mounted on each other."""
    over = [mount for mount in mounts if f"{path.rstrip('/')}/".startswith(f"{mount.mountpoint.rstrip('/')}/")]
    longest = max((len(mount.mountpoint) for mount in over), default=0)
    return next((mount for mount in reversed(over) if len(mount.mountpoint) == longest), None)


def _place(path: str, mounts: Sequence[Mount]) -> str:
    mount = _mount_of(path, mounts)
    return mount.mountpoint if mount else path


def _judge(
    place: str, cause: str, state: os.statvfs_result, limits: _Limits, readings: list[Reading]
) -> Iterator[Finding]:
    # What df shows as used and available; blocks reserved for root are neither.
    used, available = state.f_blocks - state.f_bfree, state.f_bavail
    if used + available:
        percent = 100 * available / (used + available)
        readings.append(Reading("free_space", round(percent, 1), "%", place, limits.fail))
        amount = f"{percent:.1f} % of the space in {place} is free ({available * state.f_frsize / 2**30:.1f} GiB)"
        if percent < limits.fail:
            yield _finding(FAIL, cause, amount, place)
        elif percent < limits.warn:
            yield _finding(WARN, cause, amount, place)
    # Some file systems create inodes as needed, and report a count of 0.
    if state.f_files:
        percent = 100 * state.f_favail / state.f_files
        readings.append(Reading("free_inodes", state.f_favail, "", place, limits.inodes))
        amount = f"{state.f_favail} inodes in {place} are free ({percent:.1f} %)"
        if state.f_favail < limits.inodes:
            yield _finding(FAIL, cause, amount, place)
        elif percent < limits.warn:
            yield _finding(WARN, cause, amount, place)


def _judge_reserve(place: str, state: os.statvfs_result, reserve: int, readings: list[Reading]) -> Iterator[Finding]:
    """Judge the space reserved for root, which only root's processes can use, on file systems that users can fill."""
    if not reserve:
        return
    free, least = state.f_bfree * state.f_frsize, reserve * _LEAST_OF_RESERVE
    readings.append(Reading("free_for_root", round(free / 2**20), "MiB", place, round(least / 2**20)))
    if free < least:
        words = (
            f"{free / 2**20:.0f} MiB of the {reserve / 2**20:.0f} MiB in {place} that are reserved for root are free"
        )
        yield _finding(FAIL, NODE, words, place)


def _finding(verdict: str, cause: str, words: str, place: str) -> Finding:
    # Users can delete their files, so this does not drain the node.
    if cause == USER:
        return Finding(
            WARN, words, place, "Users' files fill it: check leftovers shows files of finished jobs", cause=USER
        )
    return Finding(verdict, words, place, f"Find what fills it with 'du -xh --max-depth=2 {place} | sort -h'")


FREE_SPACE = Check(
    name="free_space",
    title="Free space",
    explain=(
        "The file systems of / and /var (option system) have at least 5 % free space (option fail_percent) and 1000 "
        f"free inodes (option fail_inodes; {_SOURCE}). If less than 10 % of the space or of the inodes is free (option "
        "warn_percent), the check warns. A file system with /tmp, /var/tmp, /dev/shm, /home or the scratch (option "
        "users) can be filled by users, so the check only warns about its free space and inodes. If such a file system "
        "is ext4, some of its space is reserved for root. If less than half of this reserved space is free, the check "
        "fails: users cannot use it, so the node's own processes have filled it. The check also fails if a file system "
        "of the option system or users is mounted read-only."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_space,
    action=OBSERVE,
    options={"fail_percent": 5.0, "warn_percent": 10.0, "fail_inodes": 1000, "system": _SYSTEM, "users": _USERS},
)


# Shared file systems: mounted from the right source, and their servers answer.
#
# Each file system is queried in its own thread, so that one whose server does not answer does not block the others.
# Its thread is left behind.

_SILENT = "silent"
_REST_S = 1.0
"""Seconds of the check's timeout that are reserved for other work than waiting."""


def _measure_mounts(context: Context) -> Answer:
    expected = _expected_mounts(context)
    if not expected:
        return Answer(skipped="no shared file systems are configured (role shared_fs, or option paths of check mounts)")
    timeout_s = min(context.option(MOUNTS, "seconds"), max(context.seconds - _REST_S, 0.1))
    answers = _ask([context.root.at(path) for path in expected], timeout_s)
    silent_before = context.history.get(_SILENT) or []
    silent: list[str] = []
    readings: list[Reading] = []
    findings: list[Finding] = []
    # Read after the queries, because an automounter mounts some file systems only on access.
    mounts = {mount.mountpoint: mount for mount in read_mounts(context.root) if mount.filesystem != "autofs"}
    for path, source in expected.items():
        answer = answers.get(context.root.at(path))
        mount = mounts.get(path)
        if answer is None:
            silent.append(path)
            findings.append(_silence(path, source, timeout_s, path in silent_before))
            continue
        if isinstance(answer, float):
            readings.append(Reading("mount_answer", round(answer, 3), "s", path, timeout_s, at_most=True))
        if mount is None:
            words = f"{path} is not mounted{f' from {source}' if source else ''}"
            findings.append(Finding(FAIL, words, path, f"Run 'mount {path}', or start its mount unit"))
        elif isinstance(answer, OSError):
            words = f"{path} does not work: {answer.strerror}"
            findings.append(Finding(FAIL, words, path, "Unmount it and mount it again; check its server"))
        elif source and mount.source.rstrip("/") != source.rstrip("/"):
            words = f"{path} is mounted from {mount.source} instead of {source}"
            findings.append(Finding(WARN, words, path, "Unmount it, and mount the configured source"))
    context.history.keep(_SILENT, silent)
    return Answer(
        good=f"{len(expected)} shared file systems are mounted and answer",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"an answer within {timeout_s:g} s (option seconds)",
    )


def _expected_mounts(context: Context) -> dict[str, str]:
    """Return the expected mounts: path and source, which is empty if it is not configured."""
    recorded = (read_config(context.root, CONFIG) or {}).get("mounts") or []
    by_role = {str(mount["path"]): str(mount.get("source") or "") for mount in recorded}
    named: Sequence[object] = context.option(MOUNTS, "paths")
    return {**{str(path).rstrip("/"): "" for path in named}, **by_role}


def _ask(paths: Sequence[str], timeout_s: float) -> Mapping[str, float | OSError]:
    """Return after how many seconds each file system answered, or its error; those without an answer are left out."""
    answers: dict[str, float | OSError] = {}

    def ask(path: str) -> None:
        begun = time.monotonic()
        try:
            os.statvfs(path)
            answers[path] = time.monotonic() - begun
        except OSError as error:
            answers[path] = error

    threads = [threading.Thread(target=ask, args=(path,), daemon=True) for path in paths]
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    # A copy, so that late answers are not counted.
    return dict(answers)


def _silence(path: str, source: str, timeout_s: float, again: bool) -> Finding:
    of = f" ({source})" if source else ""
    words = f"{path}{of} does not answer within {timeout_s:g} s{', twice in a row' if again else ''}"
    hint = "Check its server and the network to it; processes that use it hang"
    return Finding(FAIL if again else UNKNOWN, words, path, hint)


MOUNTS = Check(
    name="mounts",
    title="Shared file systems",
    explain=(
        "Each file system of the role shared_fs, and each path in the option paths, is mounted and "
        "answers statvfs within 3 seconds (option seconds). If a file system of the role is mounted from another "
        "source than the configured one, the check warns. If a file system does not answer, the verdict is unknown; if "
        "it does not answer in two runs in a row, the verdict is fail. The other file systems are checked nevertheless."
    ),
    tiers=(PERIODIC, DEEP),
    measure=_measure_mounts,
    limit_s=5.0,
    action=OBSERVE,
    options={"seconds": 3.0, "paths": []},
)
