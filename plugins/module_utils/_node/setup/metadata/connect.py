# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A filter of connect(2) in the kernel: it checks who connects to the metadata service, whoever opened the socket.

nftables checks the user who opened a socket. A task that inherits a socket from root can disconnect it, and connect it
to another address: slurmstepd leaves the listening socket of its plugin mpi/pmix open in the tasks (net_stream_listen
in Slurm's net.c, 17.11 to 26.05), and Slurm before 22.05 opened the sockets of user-managed I/O as root. The filter
checks the user of the process that calls connect(2), and refuses with "Operation not permitted".
"""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import Sequence
from typing import Union

from ...machine import bpf
from ...machine.proxy_agent import read_proxy_agent
from ...machine.root import Root
from .options import uids_of
from .rules import AGENT, guarded

KINDS = (bpf.CONNECT_4, bpf.CONNECT_6)
_PREFIX = "hpcai_"
# Operations in linux/bpf.h: on full registers, or on their lower 32 bits.
_MOVE, _MOVE_32, _SET, _LOAD, _CALL, _EXIT = 0xBF, 0xBC, 0xB7, 0x61, 0x85, 0x95
_IF_EQUAL, _IF_OTHER = 0x16, 0x56
_GET_CURRENT_UID_GID = 15
# Offsets of the address and the port in struct bpf_sock_addr, which stores both in network byte order.
_ADDRESS_4, _ADDRESS_6, _PORT = 4, (8, 12, 16, 20), 24
# Operation, target, source, offset or label to jump to, and value.
_Instruction = tuple[int, int, int, Union[int, str], int]
# An instruction, or the label of the next one.
_Step = Union[str, _Instruction]


def difference(root: Root, users: tuple[str, ...]) -> str:
    """Return what is missing in the kernel's filter; empty if nothing is.

    :param users: further users who may connect.
    :raises BpfError: the kernel does not answer, as in a container.
    :raises MetadataProblem: a user does not exist.
    """
    for kind in KINDS:
        if _ours(root, kind) != {_named(_code(root, users, kind))}:
            return "the kernel lacks the filter for sockets that root opened"
    return ""


def attach(root: Root, users: tuple[str, ...]) -> None:
    """Attach the filter if it is not attached, and detach filters of earlier settings.

    :raises BpfError: the kernel refuses.
    :raises MetadataProblem: a user does not exist.
    """
    for kind in KINDS:
        code = _code(root, users, kind)
        if _named(code) not in _ours(root, kind):
            bpf.attach(root, kind, code, _named(code))
        detach(root, kind, but=_named(code))


def detach(root: Root, *kinds: int, but: str = "") -> bool:
    """Detach our filters; return whether there were any.

    :raises BpfError: the kernel refuses.
    """
    found = False
    for kind in kinds or KINDS:
        for number, name in bpf.attached(root, kind).items():
            if name.startswith(_PREFIX) and name != but:
                bpf.detach(root, kind, number)
                found = True
    return found


def is_attached(root: Root) -> bool:
    """Return whether the kernel has a filter of this module; False if the kernel does not answer."""
    try:
        return any(_ours(root, kind) for kind in KINDS)
    except bpf.BpfError:
        return False


def _ours(root: Root, kind: int) -> set[str]:
    return {name for name in bpf.attached(root, kind).values() if name.startswith(_PREFIX)}


def _named(code: bytes) -> str:
    return _PREFIX + hashlib.sha256(code).hexdigest()[:8]


def _code(root: Root, users: tuple[str, ...], kind: int) -> bytes:
    return program(uids_of(root, users), read_proxy_agent(root) is not None, kind)


def program(uids: Sequence[int], has_agent: bool, kind: int) -> bytes:
    """Return the instructions: refuse (0) all users except these at the guarded addresses, allow the rest (1).

    An IPv6 socket reaches IPv4 addresses as ::ffff:ADDRESS.

    :param has_agent: whether Azure's guest proxy agent is on this machine.
    """
    # Register 6 keeps the context: calls overwrite registers 1 to 5. The uid is in the lower half of register 0.
    steps: list[_Step] = [(_MOVE, 6, 1, 0, 0), (_CALL, 0, 0, 0, _GET_CURRENT_UID_GID), (_MOVE_32, 0, 0, 0, 0)]
    steps += [(_IF_EQUAL, 0, 0, "allow", _signed(struct.pack("=I", uid))) for uid in uids]
    address = _ADDRESS_4
    if kind == bpf.CONNECT_6:
        *before, address = _ADDRESS_6
        for offset, value in zip(before, (b"\0\0\0\0", b"\0\0\0\0", b"\0\0\xff\xff")):
            steps += [(_LOAD, 1, 6, offset, 0), (_IF_OTHER, 1, 0, "allow", _signed(value))]
    steps += [(_LOAD, 1, 6, address, 0), (_LOAD, 2, 6, _PORT, 0)]
    for kept in guarded(has_agent):
        # The kernel treats a connection to 0.0.0.0 as one to this machine.
        for goal in (kept.address, "0.0.0.0") if kept.address == AGENT else (kept.address,):
            steps += [(_IF_OTHER, 1, 0, f"not {goal}", _signed(socket.inet_aton(goal)))]
            steps += [(_IF_EQUAL, 2, 0, "refuse", socket.htons(port)) for port in kept.ports]
            steps += [f"not {goal}"]
    steps += ["allow", (_SET, 0, 0, 0, 1), (_EXIT, 0, 0, 0, 0), "refuse", (_SET, 0, 0, 0, 0), (_EXIT, 0, 0, 0, 0)]
    return _assembled(steps)


def _assembled(steps: Sequence[_Step]) -> bytes:
    labels: dict[str, int] = {}
    instructions: list[_Instruction] = []
    for step in steps:
        if isinstance(step, str):
            labels[step] = len(instructions)
        else:
            instructions.append(step)
    code = b""
    for number, (operation, target, source, offset, value) in enumerate(instructions):
        # The distance of a jump counts from the next instruction.
        distance = labels[offset] - number - 1 if isinstance(offset, str) else offset
        code += struct.pack("=BBhi", operation, target | source << 4, distance, value)
    return code


def _signed(four: bytes) -> int:
    return int(struct.unpack("=i", four)[0])
