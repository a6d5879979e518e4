# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine's serial console: its log in Azure, and the host keys that cloud-init printed there at the first boot.

Text that users of the machine can write to the console must not be trusted. journald accepts text from any user on
``/run/systemd/journal/stdout`` and copies it to the console or to the kernel log if the sender requests it
(``STDOUT_STREAM_FORWARD_TO_CONSOLE`` in systemd's journald-stream.c), and the kernel prints names of processes and
cgroups. But each such line starts with a time, or with a name and a process id. cloud-init writes its block to
``/dev/console``, which only root can do, so the lines with keys have no prefix. Therefore:

* a line is a key only if the entire line is a key;
* only a line feed ends a line, because a user's text can contain other control characters;
* the start of a kernel must come before the keys, because a truncated log may have lost cloud-init's block;
* two different complete blocks are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from .clients import Clients
from .concurrency import Deadline, Job, WorkQueue
from .errors import Asking, InventoryError, UnreadableAnswer, explain
from .targets import Target

_AT_ONCE = 8
_MINUTES = 5
"""Validity of the signed URL of a log."""
_MOST_BYTES = 8 * 1024 * 1024
"""Most bytes to read of a log. The keys are near its beginning."""
# The signature gives access to the log, so messages must not contain it.
_SIGNED = re.compile(r"\?s\w+=\S*")
_KIND = "Microsoft.Compute/virtualMachines"
_MEMBER = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"

_BEGIN = "-----BEGIN SSH HOST KEY KEYS-----"
_END = "-----END SSH HOST KEY KEYS-----"
# The prompt of a getty that started earlier does not end its line, so the block may follow it. Even if a user started a
# block this way, no key of a user would be accepted in it.
_BEGINS = re.compile(rf"(?:.* login: ?)?{_BEGIN}")
# "[    0.000000] Linux version 6.8.0", with printk's caller id "[    0.000000][    T0] Linux version".
_KERNEL = re.compile(r"\[ *0\.000000\](?:\[ *T\d+\])? Linux version \d")

_CURVES = ("nistp256", "nistp384", "nistp521")
_STRING_COUNTS = {"ssh-ed25519": 2, "ssh-rsa": 3, **{f"ecdsa-sha2-{curve}": 3 for curve in _CURVES}}
"""Accepted types of keys, with the number of parts of each."""
_ED25519_BYTES = 32


@dataclass(frozen=True)
class HostKey:
    """A public key.

    :ivar kind: its type, e.g. ``ssh-ed25519``.
    :ivar text: its base64.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.text}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` shows."""
        try:
            digest = hashlib.sha256(base64.b64decode(self.text)).digest()
        except binascii.Error:
            return f"{self.kind} (unreadable)"
        return f"{self.kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def complete_key(line: str) -> HostKey | None:
    """Return the key in a line of a ``.pub`` file, if it is complete and of a known type."""
    kind, _blank, rest = line.partition(" ")
    text = rest.partition(" ")[0]
    if kind not in _STRING_COUNTS:
        return None
    try:
        strings = _strings(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        return None
    if len(strings) != _STRING_COUNTS[kind] or strings[0] != kind.encode():
        return None
    if kind == "ssh-ed25519" and len(strings[1]) != _ED25519_BYTES:
        return None
    if kind.startswith("ecdsa") and strings[1].decode("latin-1") != kind.rpartition("-")[2]:
        return None
    return HostKey(kind, text)


def _strings(blob: bytes) -> list[bytes]:
    """Return the parts of a key.

    :raises ValueError: the key is truncated, or something follows it.
    """
    strings = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        if end > len(blob) or end == 4:
            raise ValueError("a part of the key is missing")
        strings.append(blob[4:end])
        blob = blob[end:]
    return strings


def read_logs(clients: Clients, targets: Iterable[Target], deadline: Deadline) -> dict[Target, str | InventoryError]:
    """Return the log of each machine's serial console, or the error."""
    logs: dict[Target, str | InventoryError] = {}
    machines = list(targets)
    work = WorkQueue(_AT_ONCE, deadline)
    # Clients must be created in this thread.
    storage = clients.signed()
    for target in machines:
        work.add(_job(clients, storage, target, logs))
    work.drain()
    work.close()
    return logs


def _job(clients: Clients, storage: Any, target: Target, logs: dict[Target, str | InventoryError]) -> Job:
    kind = _MEMBER if target.scale_set else _KIND
    asking = Asking("read the log of its serial console", f"{kind}/retrieveBootDiagnosticsData/action")
    ask = _ask(clients.compute(target.subscription), target)

    def work() -> str:
        address = str(ask().serial_console_log_blob_uri or "")
        if not clients.may_read(address):
            raise UnreadableAnswer("Azure returned no URL of the log: enable boot diagnostics with managed storage.")
        return _download(storage, address)

    def failed(error: Exception) -> None:
        logs[target] = InventoryError(_SIGNED.sub("", explain(error, asking)))

    return Job(asking, work, lambda log: logs.update({target: log}), failed)


def _ask(compute: Any, target: Target) -> Callable[[], Any]:
    """Return the function that requests the signed URLs of a machine's logs."""
    more = {"sas_uri_expiration_time_in_minutes": _MINUTES}
    if target.scale_set:
        members = compute.virtual_machine_scale_set_vms
        return lambda: members.retrieve_boot_diagnostics_data(target.group, target.scale_set, target.name, **more)
    return lambda: compute.virtual_machines.retrieve_boot_diagnostics_data(target.group, target.name, **more)


def _download(storage: Any, address: str) -> str:
    from azure.core.rest import HttpRequest

    response = storage.send_request(HttpRequest("GET", address), stream=True)
    try:
        if response.status_code != 200:
            # Not raise_for_status, because status 403 does not mean a missing permission here.
            raise UnreadableAnswer(f"the boot diagnostics storage returned status {response.status_code}.")
        log = b""
        for piece in response.iter_bytes():
            log += piece
            if len(log) > _MOST_BYTES:
                break
        return log.decode("utf-8", "replace")
    finally:
        response.close()


@dataclass(frozen=True)
class Console:
    """The keys on a console.

    :ivar keys: the machine's keys, in the order in which they were printed.
    :ivar problem: why there are no keys. Empty if there are.
    :ivar was_read: whether Azure returned its log.
    """

    keys: tuple[HostKey, ...] = ()
    problem: str = ""
    was_read: bool = True


_LONGEST_PAUSE_S = 15.0
_UNREADABLE_S = 60.0
"""Time after which a console that cannot be read ends the wait for it. The log appears when the machine starts."""


def wait_for_keys(
    read: Callable[[set[Target]], dict[Target, Console]],
    targets: set[Target],
    deadline: Deadline,
    report: Callable[[int, float], object],
) -> dict[Target, Console]:
    """Read consoles until each of them shows keys, or waiting does not help. They are read at least once.

    :param read: reads some of the consoles.
    :param report: gets the number of consoles that are waited for, and the remaining seconds.
    """
    consoles = read(targets)
    failed_at: dict[Target, float] = {}
    pause = 1.0
    while True:
        left = deadline.remaining()
        failed_at = {
            target: failed_at.get(target, left) for target, console in consoles.items() if not console.was_read
        }
        awaited = {
            target
            for target, console in consoles.items()
            if not console.keys and failed_at.get(target, left) - left < _UNREADABLE_S
        }
        if not awaited or not left:
            return consoles
        report(len(awaited), left)
        deadline.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
        consoles |= read(awaited)


def read_console(log: str, previous: Collection[str] = ()) -> Console:
    """Return the host keys in the log of a serial console.

    :param previous: fingerprints of keys of the machine's previous system. Blocks with one of them are ignored.
    """
    lines = [line.rstrip("\r") for line in log.split("\n")]
    kernel = next((number for number, line in enumerate(lines) if _KERNEL.search(line)), None)
    if kernel is None:
        return Console(
            problem="the log of its serial console does not contain the start of a boot, so it is truncated or empty."
        )
    printed = _blocks(lines[kernel:])
    blocks = [block for block in printed if not any(key.fingerprint in previous for key in block)]
    if printed and not blocks:
        return Console(problem="its serial console still shows the host keys of its previous system.")
    if not blocks:
        return Console(
            problem="its serial console shows no host keys. cloud-init prints them only at the first boot, and only if "
            "its option ssh.emit_keys_to_console is not false."
        )
    if not blocks[0]:
        return Console(problem="the host keys on its serial console are damaged.")
    if any(set(block) - set(blocks[0]) for block in blocks[1:]):
        return Console(problem="its serial console shows different sets of host keys, as after a reimage.")
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
