# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Calls bpf(2) for programs that decide which sockets may connect.

The programs are attached to the root cgroup, so they see each connect(2) on the machine, and stay until they are
detached or the machine stops. The system call is used directly, because no tool for this is installed on every machine.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from .mounts import read_mounts
from .root import Root

CONNECT_4, CONNECT_6 = 10, 11
"""Attach types BPF_CGROUP_INET4_CONNECT and BPF_CGROUP_INET6_CONNECT (linux/bpf.h)."""
# Commands, flags and sizes of linux/bpf.h.
_LOAD, _ATTACH, _DETACH, _FD_BY_ID, _INFO_BY_FD, _QUERY = 5, 8, 9, 13, 15, 16
_CGROUP_SOCK_ADDR, _ALLOW_MULTI = 18, 2
_MOST_PROGRAMS = 64
_INFO_BYTES, _NAME_AT, _NAME_BYTES = 256, 64, 16
_NUMBERS = {"x86_64": 321, "aarch64": 280}
"""Numbers of the system call; the C library has no wrapper function for it."""
_CONTAINER = "/run/systemd/container"
"""systemd writes the type of container to this file if it runs in a container."""


class BpfError(RuntimeError):
    """The machine cannot run such programs, or this process may not use them; the message says why."""


def attached(root: Root, kind: int) -> dict[int, str]:
    """Return the programs of this kind at the root cgroup: their names by id.

    :raises BpfError: the kernel returns an error.
    """
    with _top(root) as folder:
        numbers = (ctypes.c_uint32 * _MOST_PROGRAMS)()
        asked = struct.pack("=IIIIQI4x", folder, kind, 0, 0, ctypes.addressof(numbers), _MOST_PROGRAMS)
        _done, answer = _bpf(_QUERY, asked)
        (count,) = struct.unpack_from("=I", answer, 24)
    return {number: _name(number) for number in list(numbers)[:count]}


def attach(root: Root, kind: int, code: bytes, name: str) -> None:
    """Load a program, which the kernel's verifier checks, and attach it in addition to others of this kind.

    :param name: at most 15 letters, digits, ``_`` or ``.``.
    :raises BpfError: the kernel refuses.
    """
    instructions, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"BSD")
    where = ctypes.addressof(instructions), ctypes.addressof(licence)
    with _top(root) as folder:
        asked = struct.pack(
            "=IIQQIIQII16sII", _CGROUP_SOCK_ADDR, len(code) // 8, *where, 0, 0, 0, 0, 0, name.encode(), 0, kind
        )
        program, _answer = _bpf(_LOAD, asked)
        try:
            _bpf(_ATTACH, struct.pack("=IIII", folder, program, kind, _ALLOW_MULTI))
        finally:
            os.close(program)


def detach(root: Root, kind: int, number: int) -> None:
    """Detach a program.

    :raises BpfError: the kernel refuses.
    """
    with _top(root) as folder, _program(number) as program:
        _bpf(_DETACH, struct.pack("=III", folder, program, kind))


def _name(number: int) -> str:
    info = ctypes.create_string_buffer(_INFO_BYTES)
    with _program(number) as program:
        _bpf(_INFO_BY_FD, struct.pack("=IIQ", program, _INFO_BYTES, ctypes.addressof(info)))
    return info.raw[_NAME_AT : _NAME_AT + _NAME_BYTES].rstrip(b"\0").decode(errors="replace")


@contextmanager
def _program(number: int) -> Iterator[int]:
    program, _answer = _bpf(_FD_BY_ID, struct.pack("=III", number, 0, 0))
    try:
        yield program
    finally:
        os.close(program)


@contextmanager
def _top(root: Root) -> Iterator[int]:
    """Open the root cgroup, version 2.

    In a privileged container this may be the host's root cgroup, where a program would affect all processes of the
    host. So it is refused in containers.
    """
    if root.exists(_CONTAINER):
        raise BpfError("this is a container, and its cgroups may be the host's")
    found = [mount.mountpoint for mount in read_mounts(root) if mount.filesystem == "cgroup2"]
    if not found:
        raise BpfError("no cgroup2 file system is mounted")
    try:
        folder = os.open(root.at(found[0]), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BpfError(f"{root.at(found[0])}: {error.strerror}") from None
    try:
        yield folder
    finally:
        os.close(folder)


def _bpf(command: int, asked: bytes) -> tuple[int, bytes]:
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise BpfError(f"the system call number of bpf(2) on {platform.machine()} is unknown")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    attributes = ctypes.create_string_buffer(asked, len(asked))
    done = libc.syscall(ctypes.c_long(number), ctypes.c_int(command), attributes, ctypes.c_uint(len(asked)))
    if done < 0:
        raise BpfError(f"bpf(2), command {command}: {os.strerror(ctypes.get_errno())}")
    return int(done), attributes.raw
