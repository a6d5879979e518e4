# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each line of the kernel matches its sign, and no line that contains a user's text matches any."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import log_signs
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import load
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Check
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_log import GPU_SXID, GPU_XID
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.kernel_log import Record

from .kernel_lines import LINES
from .kernel_log_playing import PlayedLog

COMM = 15
XID = "NVRM: Xid (PCI:0001:00:00): 79, pid=1234, name=python, GPU has fallen off the bus."
SXID = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
# What the kernel writes about a process that crashes or uses too much memory. A user chooses comm, the name of the
# process, and file, the name of a file that it has mapped, or of its cpuset.
IMITATIONS = (
    "{comm}[4711]: segfault at 0 ip 000055 sp 00007f error 4 in {file}[55d0+1000] likely on CPU 3 (core 1, socket 0)",
    "{comm}[4711] bad frame in rt_sigreturn frame:000 ip:1 sp:1 orax:ffffffffffffffff in {file}[55d0+1000]",
    "traps: {comm}[4711] general protection fault ip:55 sp:7f error:0 in {file}[55d0+1000]",
    "{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "{comm}: page allocation failure: order:9, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset={file},mems_allowed=0",
    "{comm}: vmalloc error: size 4096, failed to allocate pages, mode:0xcc0, nodemask=(null),cpuset={file},mems",
    "{comm}: potentially unexpected fatal signal 11.",
    "{comm} (4711) used greatest stack depth: 11000 bytes left",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={file},mems_allowed=0,task={comm},pid=4711,uid=1000",
    "audit: type=1701 audit(1.2:3): auid=1000 uid=1000 pid=4711 comm={comm} exe={file} sig=11 res=1",
    "process '/tmp/{file}' started with executable stack",
)


def signs_of(check: str) -> tuple[log_signs.Sign, ...]:
    """Return the signs of a check."""
    found: tuple[log_signs.Sign, ...] = getattr(
        importlib.import_module(load(check).measure.__module__), f"{check.upper()}_SIGNS"
    )
    return found


@pytest.mark.parametrize("check", LINES)
def test_each_sign_has_a_source_and_matches_its_lines(check: str) -> None:
    signs = signs_of(check)
    assert [sign.name for sign in signs if not sign.source] == []
    assert {sign.name for sign in signs} == set(LINES[check])
    for name, lines in LINES[check].items():
        for line in lines:
            found = log_signs.matches([Record(0, 0, 0, line)], signs)
            assert [sign.name for sign, _device in found] == [name], line


def imitations(line: str) -> Iterator[str]:
    """Yield lines that imitate this one, and that a user can make the kernel write."""
    for form in IMITATIONS:
        for length in range(1, COMM + 1):
            for file in (line[length:], line):
                yield form.format(comm=line[:length], file=file)
                # A newline in the name of a file does not begin another record.
                yield form.format(comm=line[:length], file=f"\n{file}")


@pytest.mark.parametrize("check", LINES)
def test_no_line_with_a_users_text_matches_a_sign(tmp_path: Path, check: str) -> None:
    """Otherwise a crashed process with the name 'EDAC MC1: 1 UE ' would drain its node."""
    log = PlayedLog(tmp_path)
    for lines in LINES[check].values():
        for line in lines:
            log.write(*dict.fromkeys(imitations(line)))
    answer = log.look(load(check))
    assert (answer.findings, [one.value for one in answer.readings if one.device == ""][:1]) == ((), [0])


@pytest.mark.parametrize(("check", "line"), [(GPU_XID, XID), (GPU_SXID, SXID)])
def test_no_line_with_a_users_text_is_an_xid_or_sxid(tmp_path: Path, check: Check, line: str) -> None:
    log = PlayedLog(tmp_path)
    log.write(*dict.fromkeys(imitations(line)))
    assert log.look(check).findings == ()
    log.write(line)
    assert len(log.look(check).findings) == 1


def test_errors_of_a_full_file_system_are_no_disk_errors(tmp_path: Path) -> None:
    log = PlayedLog(tmp_path)
    log.write(
        "EXT4-fs (sda1): Delayed block allocation failed for inode 1 at logical offset 0 with max blocks 2 with error "
        "28",
        "EXT4-fs (sda1): failed to convert unwritten extents to written extents -- potential data loss!  (inode 1, "
        "error -122)",
        "operation not supported error, dev nvme0n1, sector 0 op 0x9:(WRITE_ZEROES) flags 0x0 phys_seg 0 prio class 2",
    )
    assert log.look(load("disk_errors")).findings == ()
