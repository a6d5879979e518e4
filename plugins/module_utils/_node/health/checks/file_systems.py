# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""File systems: space and inodes are left, and shared ones are mounted and answer."""

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

# File systems of the machine: space and inodes are left, and they can be written.
#
# A file system in which users may write is full when a user wants it to be, so that is no reason to drain the node.
# What no user can take is the part that ext4 reserves for root.

_SOURCE = "LBNL NHC, nhc.conf: check_fs_free / 5%, check_fs_ifree / 1k"
_SYSTEM = ("/", "/var")
_USERS = ("/tmp", "/var/tmp", "/dev/shm", "/home")
_LEAST_OF_RESERVE = 0.5
"""Share of root's reserve that must be free."""


@dataclass(frozen=True)
class _Limits:
    """Of what must be left.

    :ivar fail: per cent of the space.
    :ivar warn: per cent of the space and of the inodes.
    :ivar inodes: number of inodes.
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
            words = f"{place} does not tell how much is left: {error.strerror}"
            findings.append(Finding(UNKNOWN, words, place, cause=cause))
            continue
        findings += _judge(place, cause, state, limits, readings)
        if mount and cause == USER:
            findings += _judge_reserve(place, state, reserved_bytes(mount, context.root), readings)
        if mount and "ro" in mount.options:
            words = f"{place} is mounted read-only"
            hint = "The kernel does so after errors of the disk: 'journalctl -k -b' tells; restart the machine"
            findings.append(Finding(FAIL, words, place, hint, REBOOT))
    if not judged:
        findings.append(Finding(UNKNOWN, f"none of {', '.join((*system, *users))} is there"))
    return Answer(
        good=f"{len(judged)} file systems have space and inodes left",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"{limits.fail:g} % of the space, {limits.inodes} inodes left ({_SOURCE}); below {limits.warn:g} % warns",
    )


def _mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount that a path lies in, the visible one where several lie over each other."""
    over = [mount for mount in mounts if f"{path.rstrip('/')}/".startswith(f"{mount.mountpoint.rstrip('/')}/")]
    longest = max((len(mount.mountpoint) for mount in over), default=0)
    return next((mount for mount in reversed(over) if len(mount.mountpoint) == longest), None)


def _place(path: str, mounts: Sequence[Mount]) -> str:
    mount = _mount_of(path, mounts)
    return mount.mountpoint if mount else path


def _judge(
    place: str, cause: str, state: os.statvfs_result, limits: _Limits, readings: list[Reading]
) -> Iterator[Finding]:
    # What df calls used and available: blocks set aside for root are neither.
    used, available = state.f_blocks - state.f_bfree, state.f_bavail
    if used + available:
        percent = 100 * available / (used + available)
        readings.append(Reading("free_space", round(percent, 1), "%", place, limits.fail))
        amount = f"{percent:.1f} % of the space in {place} is left ({available * state.f_frsize / 2**30:.1f} GiB)"
        if percent < limits.fail:
            yield _finding(FAIL, cause, amount, place)
        elif percent < limits.warn:
            yield _finding(WARN, cause, amount, place)
    # Some file systems make inodes as they need them, and count none.
    if state.f_files:
        percent = 100 * state.f_favail / state.f_files
        readings.append(Reading("free_inodes", state.f_favail, "", place, limits.inodes))
        amount = f"{state.f_favail} inodes in {place} are left ({percent:.1f} %)"
        if state.f_favail < limits.inodes:
            yield _finding(FAIL, cause, amount, place)
        elif percent < limits.warn:
            yield _finding(WARN, cause, amount, place)


def _judge_reserve(place: str, state: os.statvfs_result, reserve: int, readings: list[Reading]) -> Iterator[Finding]:
    """Judge what only root's processes can have taken, where users fill the rest."""
    if not reserve:
        return
    free, least = state.f_bfree * state.f_frsize, reserve * _LEAST_OF_RESERVE
    readings.append(Reading("free_for_root", round(free / 2**20), "MiB", place, round(least / 2**20)))
    if free < least:
        words = (
            f"{free / 2**20:.0f} MiB of the {reserve / 2**20:.0f} MiB in {place} that are reserved for root are left"
        )
        yield _finding(FAIL, NODE, words, place)


def _finding(verdict: str, cause: str, words: str, place: str) -> Finding:
    # What users have filled they can empty: no reason to take the node away.
    if cause == USER:
        return Finding(
            WARN, words, place, "Users' files fill it: check leftovers tells whose jobs are over", cause=USER
        )
    return Finding(verdict, words, place, f"'du -xh --max-depth=2 {place} | sort -h' tells what fills it")


FREE_SPACE = Check(
    name="free_space",
    title="Free space",
    explain=(
        "Of the file systems of / and /var (option system) at least 5 % of the space (fail_percent) and 1000 inodes "
        f"(fail_inodes) are left ({_SOURCE}); below 10 % (warn_percent) it warns. A file system that holds /tmp, "
        "/var/tmp, /dev/shm, /home or the scratch (option users) only warns, as users can fill it; it fails where "
        "less than half of the space is left that ext4 reserves for root, which no user can fill. One that became "
        "read-only fails."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_space,
    action=OBSERVE,
    options={"fail_percent": 5.0, "warn_percent": 10.0, "fail_inodes": 1000, "system": _SYSTEM, "users": _USERS},
)


# Shared file systems: mounted from where they should be, and their servers answer.
#
# Each is asked in a thread of its own. One whose server is away holds up nobody who asks for another one; it is
# named, and its thread is left behind.

_SILENT = "silent"
_REST_S = 1.0
"""Seconds of the check's time that are not spent on waiting."""


def _measure_mounts(context: Context) -> Answer:
    expected = _expected_mounts(context)
    if not expected:
        return Answer(skipped="no shared file systems are named: role shared_fs, or option paths of check mounts")
    timeout_s = min(context.option(MOUNTS, "seconds"), max(context.seconds - _REST_S, 0.1))
    answers = _ask([context.root.at(path) for path in expected], timeout_s)
    silent_before = context.history.get(_SILENT) or []
    silent: list[str] = []
    readings: list[Reading] = []
    findings: list[Finding] = []
    # Read after they were asked: some are mounted only when somebody looks.
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
            findings.append(Finding(FAIL, words, path, f"Run 'mount {path}' or 'systemctl start' of its unit"))
        elif isinstance(answer, OSError):
            words = f"{path} does not work: {answer.strerror}"
            findings.append(Finding(FAIL, words, path, "Unmount it and mount it again; look at its server"))
        elif source and mount.source.rstrip("/") != source.rstrip("/"):
            words = f"{path} is mounted from {mount.source} instead of {source}"
            findings.append(Finding(WARN, words, path, "Unmount it, and mount what the settings say"))
    context.history.keep(_SILENT, silent)
    return Answer(
        good=f"{len(expected)} shared file systems are mounted and answer",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"an answer within {timeout_s:g} s (option seconds)",
    )


def _expected_mounts(context: Context) -> dict[str, str]:
    """Return the mounts that there should be: path and source, which is empty where nobody says."""
    recorded = (read_config(context.root, CONFIG) or {}).get("mounts") or []
    by_role = {str(mount["path"]): str(mount.get("source") or "") for mount in recorded}
    named: Sequence[object] = context.option(MOUNTS, "paths")
    return {**{str(path).rstrip("/"): "" for path in named}, **by_role}


def _ask(paths: Sequence[str], timeout_s: float) -> Mapping[str, float | OSError]:
    """Return the seconds after which each file system answered, or its error; those that do not answer are left out."""
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
    # What comes in late has not come.
    return dict(answers)


def _silence(path: str, source: str, timeout_s: float, again: bool) -> Finding:
    of = f" ({source})" if source else ""
    words = f"{path}{of} does not answer within {timeout_s:g} s{', twice running' if again else ''}"
    hint = "Look at its server and at the network to it; who works there waits"
    return Finding(FAIL if again else UNKNOWN, words, path, hint)


MOUNTS = Check(
    name="mounts",
    title="Shared file systems",
    explain=(
        "Each file system of role shared_fs and each path of option paths is mounted, from the source that the "
        "settings name, and answers (statvfs) within option seconds, 3 by default. One that does not is unknown, and "
        "fails when it does not answer twice running; the others are judged all the same."
    ),
    tiers=(PERIODIC, DEEP),
    measure=_measure_mounts,
    limit_s=5.0,
    action=OBSERVE,
    options={"seconds": 3.0, "paths": []},
)
