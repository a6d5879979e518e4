# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The scratch: it is mounted with the right file system, its array is complete, and it can be written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...machine.config import read_config
from ...machine.disks import Array, read_block_devices
from ...machine.kernel import read_boot_id
from ...machine.mounts import Mount, device_of, read_mounts, why_not_writable
from ...machine.root import Root
from ...setup.directories.options import DIRECTORY
from ...setup.scratch.disk_count import stated_count
from ...setup.scratch.facts import RECORD
from ...setup.scratch.options import parse
from ..check import FAIL, REBOOT, REPLACE, TIERS, Answer, Check, Context, Finding, Reading

_DIRECTORIES = "/run/hpcai/boot/directories.json"
_GOOD_STATES = ("clean", "active", "active-idle", "write-pending", "read-auto")
"""Values of md's array_state (the kernel's Documentation/admin-guide/md.rst); others are e.g. readonly, broken."""
_AGAIN = "Check it with 'hpcnode scratch status', set it up with 'hpcnode scratch up'"
_LOST = "A disk is lost, and with it the data on the scratch: redeploy or replace the instance"


def _measure(context: Context) -> Answer:
    root = context.root
    options = parse(read_config(root, "scratch") or {})
    recorded = _recorded_at_boot(root)
    mountpoint, kind = options.mountpoint, recorded.get("kind")
    stated = stated_count(options, context.size.nvme_count if context.size else None)
    count = stated.count if stated else None
    # Without a known number of disks, the record shows whether this boot has mounted the scratch.
    if not count and kind is None and (stated or not root.exists(RECORD)):
        return Answer(skipped="no scratch is expected on this node")
    if not count:
        mountpoint = str(recorded.get("mountpoint") or mountpoint)
    if not count and kind == DIRECTORY:
        return _of_directory(root, mountpoint)
    readings, findings = judge_scratch(root, mountpoint)
    return Answer(
        good=f"{mountpoint} is mounted, complete, and can be written",
        readings=readings,
        findings=findings,
        limit="mounted as the boot phase left it, an array with all members, writable",
    )


def judge_scratch(root: Root, mountpoint: str) -> tuple[tuple[Reading, ...], tuple[Finding, ...]]:
    """Return what was measured of a scratch that must be mounted, and what is wrong with it."""
    mount = _mount_at(root, mountpoint)
    readings = [Reading("scratch_mounted", "yes" if mount else "no")]
    findings: list[Finding] = []
    if mount is None:
        findings.append(_not_mounted(mountpoint))
    else:
        findings += _judge_mount(root, mount)
        findings += _judge_array(root, mount, readings)
        findings += _judge_writing(root, mountpoint)
    return tuple(readings), tuple(findings)


def _of_directory(root: Root, path: str) -> Answer:
    findings = tuple(_judge_writing(root, path))
    readings = (Reading("scratch_written", "no" if findings else "yes"),)
    return Answer(f"{path}, a plain directory, can be written", readings, findings, "writable")


def problem_of(root: Root) -> str:
    """Return why jobs cannot use the scratch, in one line; empty if it is good, or the node has none.

    For the prolog of a node without health checks, which has little time. It does not count disks or read the array,
    because the boot phase does that and later faults show as a missing mount or a file system that cannot be written.
    """
    recorded = _recorded_at_boot(root)
    mountpoint = recorded.get("mountpoint")
    if not isinstance(mountpoint, str) or not mountpoint.startswith("/"):
        return ""
    if recorded.get("kind") != DIRECTORY and _mount_at(root, mountpoint) is None:
        return _not_mounted(mountpoint).summary
    return next((finding.summary for finding in _judge_writing(root, mountpoint)), "")


def _mount_at(root: Root, mountpoint: str) -> Mount | None:
    return next((mount for mount in reversed(read_mounts(root)) if mount.mountpoint == mountpoint), None)


def _not_mounted(mountpoint: str) -> Finding:
    return Finding(FAIL, f"the scratch {mountpoint} is not mounted", hint=_AGAIN, action=REBOOT)


def _recorded_at_boot(root: Root) -> Mapping[str, Any]:
    """Return what the step ``directories`` recorded in this boot. A scratch on a temporary disk is a mount too."""
    try:
        given = json.loads(root.text(_DIRECTORIES) or "")
        details = given["details"] if given["boot_id"] == read_boot_id(root) else {}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return details if isinstance(details, Mapping) else {}


def _judge_mount(root: Root, mount: Mount) -> Iterator[Finding]:
    try:
        record = json.loads(root.text(RECORD) or "{}")
        number = record.get("number")
    except (ValueError, AttributeError, RecursionError):
        number = None
    if number and number != mount.number:
        words = f"a wrong file system is mounted at {mount.mountpoint}: {mount.source} ({mount.filesystem})"
        yield Finding(FAIL, words, hint=f"Unmount it; {_AGAIN}", action=REBOOT)
    if "ro" in mount.options:
        words = f"the scratch {mount.mountpoint} is mounted read-only"
        yield Finding(FAIL, words, hint="Find the cause with 'journalctl -k -b'; restart the machine", action=REBOOT)


def _judge_array(root: Root, mount: Mount, readings: list[Reading]) -> Iterator[Finding]:
    devices = read_block_devices(root)
    name = device_of(mount, devices) or ""
    array = devices[name].array if name in devices else None
    if array is None:
        return
    degraded = root.number(f"/sys/block/{name}/md/degraded") or 0
    readings += [
        Reading("scratch_array_members", len(array.members), device=name, limit=array.raid_disks),
        Reading("scratch_array_state", array.state, device=name),
    ]
    if array.state not in _GOOD_STATES:
        yield Finding(FAIL, f"the scratch's array {name} is {array.state}{_faulty(root, name, array)}", name, _LOST)
    elif len(array.members) < array.raid_disks or degraded:
        members = f"{len(array.members)} of {array.raid_disks} members"
        words = (
            f"the scratch's array {name} has lost a disk: {members}, degraded {degraded}{_faulty(root, name, array)}"
        )
        yield Finding(FAIL, words, name, _LOST)
    elif (faulty := _faulty(root, name, array)) != "":
        yield Finding(FAIL, f"the scratch's array {name} has failed members{faulty}", name, _LOST)


def _faulty(root: Root, name: str, array: Array) -> str:
    states = {member: root.text(f"/sys/block/{name}/md/dev-{member}/state") or "" for member in array.members}
    failed = [member for member, state in states.items() if {"faulty", "blocked"} & set(state.split(","))]
    return f": {', '.join(failed)} failed" if failed else ""


def _judge_writing(root: Root, path: str) -> Iterator[Finding]:
    # A full scratch is not reported here, because check free_space warns about it.
    problem = why_not_writable(root.at(path))
    if problem:
        hint = "Find the cause with 'journalctl -k -b'; a restart brings back a file system that shut down"
        yield Finding(FAIL, f"the scratch {path} cannot be written: {problem}", hint=hint, action=REBOOT)


SCRATCH = Check(
    name="scratch",
    title="Scratch",
    explain=(
        "The scratch is mounted at the configured place and not read-only. The file system there is the one that "
        "hpcnode mounted in this boot, and a byte can be written. If the scratch is on an md array, all members are "
        "present and the state is good (array_state, degraded and the members' states in sysfs). On a node without "
        "NVMe disks, a scratch on the temporary disk is tested in the same way. If the boot phase created a plain "
        "directory as the scratch instead, the check only tests writing. On a node without a scratch, the check is "
        "skipped."
    ),
    tiers=TIERS,
    measure=_measure,
    # While jobs write much, a new file may wait for seconds, for example for the journal of ext4.
    limit_s=6.0,
    action=REPLACE,
    fault="NHC2023",
    asks_device=True,
    blocks_job=True,
    blocks_boot=True,
)
