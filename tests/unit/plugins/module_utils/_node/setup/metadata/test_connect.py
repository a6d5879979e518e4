# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter of connect(2): what its instructions decide, and when it is attached again."""

from __future__ import annotations

import pathlib
import socket
import struct

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import bpf
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata import connect
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.options import MetadataProblem

from .filters import Kernel
from .machine import Machine

JOB_USER = 1001
HALF, ALL = 2**32, 2**64


def decide(code: bytes, uid: int, address: str, port: int) -> bool:
    """Whether the program lets a user connect. It interprets the instructions that are used, by the kernel's manual."""
    context = bytearray(72)
    if ":" in address:
        context[8:24] = socket.inet_pton(socket.AF_INET6, address)
    else:
        context[4:8] = socket.inet_aton(address)
    context[24:26] = struct.pack("!H", port)
    # Reading a register that was not set is an error. The upper half of the call's result is the group.
    registers: dict[int, int] = {1: 0}
    index = 0
    while True:
        operation, both, offset, value = struct.unpack_from("=BBhi", code, index * 8)
        target, source = both & 15, both >> 4
        index += 1
        if operation == 0xBF:
            registers[target] = registers[source]
        elif operation == 0xBC:
            registers[target] = registers[source] % HALF
        elif operation == 0xB7:
            registers[target] = value % ALL
        elif operation == 0x85:
            assert value == 15
            registers = {0: 77 << 32 | uid, **{kept: registers[kept] for kept in registers if kept >= 6}}
        elif operation == 0x61:
            (registers[target],) = struct.unpack_from("=I", context, registers[source] + offset)
        elif operation in (0x16, 0x56):
            equal = registers[target] % HALF == value % HALF
            index += offset if equal == (operation == 0x16) else 0
        else:
            assert operation == 0x95
            return registers[0] == 1


@pytest.mark.parametrize("uid", [0, 998, JOB_USER, 2**32 - 2])
@pytest.mark.parametrize(
    ("address", "port", "kept"),
    [
        ("169.254.169.254", 80, True),
        ("169.254.169.254", 443, False),
        ("168.63.129.16", 80, True),
        ("168.63.129.16", 32526, True),
        ("168.63.129.16", 53, False),
        ("169.254.169.253", 80, False),
        ("10.0.0.4", 80, False),
        ("127.0.0.1", 3080, False),
    ],
)
def test_only_listed_users_can_connect_to_the_metadata_addresses(uid: int, address: str, port: int, kept: bool) -> None:
    for may in ((0,), (0, 998), (0, 2**32 - 2)):
        allowed = uid in may or not kept
        assert decide(connect.program(may, False, bpf.CONNECT_4), uid, address, port) == allowed
        mapped = connect.program(may, False, bpf.CONNECT_6)
        assert decide(mapped, uid, f"::ffff:{address}", port) == allowed


@pytest.mark.parametrize("address", ["::169.254.169.254", "::1:ffff:169.254.169.254", "1::ffff:169.254.169.254"])
def test_other_ipv6_addresses_are_not_filtered(address: str) -> None:
    assert decide(connect.program((0,), False, bpf.CONNECT_6), JOB_USER, address, 80)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_the_guest_proxy_agent_is_filtered_too(address: str) -> None:
    code = connect.program((0,), True, bpf.CONNECT_4)
    assert not decide(code, JOB_USER, address, 3080)
    assert not decide(connect.program((0,), True, bpf.CONNECT_6), JOB_USER, f"::ffff:{address}", 3080)
    assert decide(code, 0, address, 3080)
    assert decide(code, JOB_USER, address, 80)
    assert not decide(code, JOB_USER, "169.254.169.254", 80)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A fake kernel."""
    return Kernel(monkeypatch)


def test_the_filter_is_attached_once_and_again_for_other_users(tmp_path: pathlib.Path, kernel: Kernel) -> None:
    root = Machine(tmp_path).root
    assert connect.difference(root, ()) == "the kernel lacks the filter for sockets that root opened"
    connect.attach(root, ())
    connect.attach(root, ())
    assert connect.difference(root, ()) == ""
    assert sorted(kernel.programs) == [1, 2, 3]
    assert connect.difference(root, ("telegraf",)) != ""
    connect.attach(root, ("telegraf",))
    # The new ones are attached before the old ones are detached: there is always a filter.
    assert sorted(kernel.programs) == [1, 4, 5]
    assert decide(kernel.programs[4][2], 998, "169.254.169.254", 80)
    assert connect.is_attached(root)


def test_a_filter_left_by_earlier_settings_is_a_difference(tmp_path: pathlib.Path, kernel: Kernel) -> None:
    root = Machine(tmp_path).root
    connect.attach(root, ())
    kernel.attach(root, bpf.CONNECT_6, b"", "hpcai_00000000")
    assert connect.difference(root, ()) != ""
    connect.attach(root, ())
    assert connect.difference(root, ()) == ""


def test_foreign_programs_are_kept(tmp_path: pathlib.Path, kernel: Kernel) -> None:
    root = Machine(tmp_path).root
    connect.attach(root, ())
    assert connect.detach(root)
    assert not connect.detach(root)
    assert not connect.is_attached(root)
    assert list(kernel.programs) == [1]


def test_users_that_do_not_exist_are_refused(tmp_path: pathlib.Path, kernel: Kernel) -> None:
    with pytest.raises(MetadataProblem, match="user 'prometheus' does not exist"):
        connect.attach(Machine(tmp_path).root, ("prometheus",))


def test_if_the_kernel_does_not_answer_no_filter_is_attached(tmp_path: pathlib.Path) -> None:
    assert not connect.is_attached(Root(str(tmp_path)))
