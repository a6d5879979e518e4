# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host keys that cloud-init printed on a machine's serial console at its first boot.

What users of the machine can bring to the console must not be believed. They can: journald takes text from anybody on
``/run/systemd/journal/stdout`` and copies it to the console or to the kernel's log if the sender asks for that
(``STDOUT_STREAM_FORWARD_TO_CONSOLE`` in systemd's journald-stream.c); the kernel prints names of processes and cgroups.
But each such line starts with a time or a name and a process id, whatever its text is. cloud-init writes its block to
``/dev/console`` itself, which only root can, so the lines of keys have nothing before them. Therefore:

* a line is a key only if it is nothing else, from its first to its last character;
* only a line feed ends a line, for other control characters can be within a user's text;
* the start of a kernel comes before the keys: a log without its beginning may have lost cloud-init's block as well;
* two different complete blocks are as good as none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .host_keys import HostKey, complete_key

_BEGIN = "-----BEGIN SSH HOST KEY KEYS-----"
_END = "-----END SSH HOST KEY KEYS-----"
# The prompt of a getty that started earlier has no end of its line. In a block that a user begins no user's key counts
# either.
_BEGINS = re.compile(rf"(?:.* login: ?)?{_BEGIN}")
# "[    0.000000] Linux version 6.8.0", with printk's caller id "[    0.000000][    T0] Linux version".
_KERNEL = re.compile(r"\[ *0\.000000\](?:\[ *T\d+\])? Linux version \d")


@dataclass(frozen=True)
class Console:
    """What a console shows.

    :ivar keys: the machine's keys, in the order in which they were printed.
    :ivar lacks: why there are none; empty if there are.
    """

    keys: tuple[HostKey, ...] = ()
    lacks: str = ""


def read_console(log: str) -> Console:
    """Return the host keys in the log of a serial console."""
    lines = [line.rstrip("\r") for line in log.split("\n")]
    kernel = next((number for number, line in enumerate(lines) if _KERNEL.search(line)), None)
    if kernel is None:
        return Console(lacks="the log of its serial console has no beginning of a boot, so it is cut or empty.")
    blocks = _blocks(lines[kernel:])
    if not blocks:
        return Console(
            lacks="its serial console shows no host keys. cloud-init prints them at the first boot only, unless its "
            "option ssh.emit_keys_to_console is false."
        )
    if not blocks[0]:
        return Console(lacks="the host keys on its serial console are damaged.")
    if any(set(block) - set(blocks[0]) for block in blocks[1:]):
        return Console(lacks="its serial console shows different sets of host keys, as after a reimage.")
    return Console(blocks[0])


def _blocks(lines: list[str]) -> list[tuple[HostKey, ...]]:
    """Return the keys of each complete block."""
    blocks: list[tuple[HostKey, ...]] = []
    block: list[HostKey] | None = None
    for line in lines:
        if _BEGINS.fullmatch(line):
            block = []
        elif block is None:
            continue
        elif line == _END:
            blocks.append(tuple(block))
            block = None
        elif key := complete_key(line):
            block.append(key)
    return blocks
