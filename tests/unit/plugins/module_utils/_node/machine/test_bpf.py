# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to bpf(2), with a fake kernel; tests/hardware uses a real one."""

from __future__ import annotations

import ctypes
import os
import pathlib
import struct

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import bpf
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

MOUNTS = "41 30 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
LOAD, ATTACH, DETACH, FD_BY_ID, INFO, QUERY = 5, 8, 9, 13, 15, 16


class Kernel:
    """A fake kernel with programs 7 (``hpcai_1``) and 9 (``agent``) attached; it records the requests."""

    def __init__(self) -> None:
        """Start without requests."""
        self.asked: list[tuple[int, bytes]] = []

    def bpf(self, command: int, asked: bytes) -> tuple[int, bytes]:
        """Answer a request."""
        self.asked.append((command, asked))
        if command == QUERY:
            address, room = struct.unpack_from("=QI", asked, 16)
            assert room >= 2
            (ctypes.c_uint32 * 2).from_address(address)[:] = [7, 9]
            return 0, asked[:24] + struct.pack("=I4x", 2)
        if command in (LOAD, FD_BY_ID):
            return os.open("/dev/null", os.O_RDONLY), asked
        if command == INFO:
            _program, size, address = struct.unpack("=IIQ", asked)
            name = b"hpcai_1" if self.asked[-2][1][:4] == struct.pack("=I", 7) else b"agent"
            ctypes.memmove(address + 64, name.ljust(16, b"\0"), 16)
            assert size >= 80
        return 0, asked


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A machine with cgroup version 2."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return Root(str(tmp_path))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel with two programs."""
    fake = Kernel()
    monkeypatch.setattr(bpf, "_bpf", fake.bpf)
    return fake


def test_attached_programs_are_listed_with_their_names(root: Root, kernel: Kernel) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert bpf.attached(root, bpf.CONNECT_4) == {7: "hpcai_1", 9: "agent"}
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_program_is_loaded_for_its_kind_and_attached_beside_others(root: Root, kernel: Kernel) -> None:
    before = len(os.listdir("/proc/self/fd"))
    bpf.attach(root, bpf.CONNECT_6, b"12345678" * 3, "hpcai_x")
    (load, asked), (attach, where) = kernel.asked
    assert (load, attach) == (LOAD, ATTACH)
    assert struct.unpack_from("=II", asked) == (18, 3)
    assert asked[48:64].rstrip(b"\0") == b"hpcai_x"
    # expected_attach_type is the last field of linux/bpf.h that is passed.
    assert (len(asked), struct.unpack_from("=I", asked, 68)) == (72, (bpf.CONNECT_6,))
    assert struct.unpack_from("=II", where, 8) == (bpf.CONNECT_6, 2)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_program_is_detached_by_its_number(root: Root, kernel: Kernel) -> None:
    bpf.detach(root, bpf.CONNECT_4, 7)
    assert [command for command, _asked in kernel.asked] == [FD_BY_ID, DETACH]
    assert kernel.asked[0][1][:4] == struct.pack("=I", 7)


def test_without_cgroup_version_2_it_is_an_error(tmp_path: pathlib.Path, kernel: Kernel) -> None:
    with pytest.raises(bpf.BpfError, match="no cgroup2 file system is mounted"):
        bpf.attached(Root(str(tmp_path)), bpf.CONNECT_4)
    assert kernel.asked == []


def test_in_a_container_the_cgroups_of_its_host_are_left_alone(root: Root, kernel: Kernel) -> None:
    pathlib.Path(root.at("/run/systemd")).mkdir(parents=True)
    pathlib.Path(root.at("/run/systemd/container")).write_text("podman\n")
    with pytest.raises(bpf.BpfError, match="this is a container"):
        bpf.attach(root, bpf.CONNECT_4, b"", "hpcai_x")
    assert kernel.asked == []


def test_a_refusal_names_the_system_call(root: Root) -> None:
    """A folder that is not a cgroup is refused by any kernel, also for root."""
    with pytest.raises(bpf.BpfError, match=r"^bpf\(2\), command 16: "):
        bpf.attached(root, bpf.CONNECT_4)


def test_on_an_unknown_processor_bpf_is_not_called(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf.platform, "machine", lambda: "riscv64")
    with pytest.raises(bpf.BpfError, match="on riscv64 is unknown"):
        bpf.attached(root, bpf.CONNECT_4)
