# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which host keys of which machines are verified, and the file of those that ssh knows."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .console import Console, HostKey
from .errors import listed
from .targets import Target, make_target

_HASHED = "|1|"


def read_known_hosts(path: Path) -> str:
    """Return the file's text; none if there is no file."""
    try:
        return path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def known_keys(text: str, name: str) -> tuple[HostKey, ...]:
    """Return the keys that ssh knows under a name, without lines that have a marker (``@revoked``) or a pattern."""
    keys = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and _names(fields[0], name.lower()):
            keys.append(HostKey(fields[1], fields[2]))
    return tuple(keys)


def describe_mismatch(name: str, vm_id: str, path: Path, known: Iterable[HostKey], shown: Iterable[HostKey]) -> str:
    """Say in which key ssh's file and the machine's console differ; empty if they agree."""
    right = set(shown)
    wrong = [key for key in known if key not in right]
    if not wrong:
        return ""
    return (
        f"{name}: {path} has the host key {_fingerprints(wrong)} for {vm_id}, which the machine's serial console does "
        f"not show; it shows {_fingerprints(right)}. Another machine may have answered at the first contact. If you "
        f"changed the keys or reimaged the machine: ssh-keygen -f {shlex.quote(str(path))} -R {vm_id}"
    )


def as_lines(vm_id: str, keys: Iterable[HostKey]) -> str:
    """Return the lines of keys that ssh shall know under a name."""
    return "".join(f"{vm_id.lower()} {key}\n" for key in keys)


def with_lines(text: str, lines: str) -> str:
    """Return the file's text with lines added."""
    return text + ("\n" if text and lines and not text.endswith("\n") else "") + lines


def append_lines(path: Path, text: str, lines: str) -> None:
    """Add lines to the file, by one write at its end: ssh may be adding others at the same time.

    :param text: what the file held.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(descriptor, "ab", buffering=0) as file:
        file.write(with_lines(text, lines)[len(text) :].encode())


def _names(field: str, name: str) -> bool:
    if field.startswith(_HASHED):
        try:
            salt, digest = (base64.b64decode(item, validate=True) for item in field[len(_HASHED) :].split("|"))
        except (ValueError, binascii.Error):
            return False
        # What ssh writes with HashKnownHosts.
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
    return name in field.lower().split(",")


def _fingerprints(keys: Iterable[HostKey]) -> str:
    return ", ".join(sorted(key.fingerprint for key in keys))


PATH_VARIABLE = "hpcai_known_hosts"
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")


@dataclass(frozen=True)
class Machine:
    """A virtual machine that ssh is to know.

    :ivar name: what messages call it.
    :ivar path: the file of host keys that ssh looks into for it.
    """

    name: str
    target: Target
    path: Path


@dataclass
class Outcome:
    """What is known of machines.

    :ivar shown: keys of the machines that were verified now.
    :ivar known: machines that ssh knew already, and whose consoles say nothing.
    :ivar unverified: machines that nobody can vouch for, with the reason.
    :ivar contradictions: errors, where ssh knows another key than the console shows.
    :ivar added: keys that ssh does not have yet.
    :ivar machines: how many there are in all.
    """

    shown: dict[Machine, tuple[HostKey, ...]] = field(default_factory=dict)
    known: list[Machine] = field(default_factory=list)
    unverified: dict[Machine, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    added: dict[Machine, list[HostKey]] = field(default_factory=dict)
    machines: int = 0

    def lines(self) -> dict[Path, str]:
        """Return the lines that each file lacks."""
        lines: dict[Path, str] = {}
        for machine, keys in self.added.items():
            lines[machine.path] = lines.get(machine.path, "") + as_lines(machine.target.vm_id, keys)
        return lines

    def warnings(self) -> list[str]:
        """Return one line about all machines that are not verified."""
        if not self.unverified:
            return []
        return [f"{self._count()}, and ssh accepts the first key that it sees from them: {_reasons(self.unverified)}"]

    def refusals(self, left_out: list[str]) -> list[str]:
        """Return why not all machines are verified."""
        refusals = []
        if self.unverified:
            refusals.append(
                f"{self._count()}: {_reasons(self.unverified)} Enable boot diagnostics, or add a key that you have "
                "verified to the file of known hosts with the vmId in front."
            )
        if left_out:
            refusals.append(
                f"These hosts have no azure_id, azure_vm_id or {PATH_VARIABLE}, so nothing can be verified: "
                f"{listed(left_out)}."
            )
        return refusals

    def _count(self) -> str:
        return f"Azure cannot verify the host keys of {len(self.unverified)} of {self.machines} machines"


def machines_of_hosts(
    hosts: Iterable[str], hostvars: Mapping[str, Any], path: str | None
) -> tuple[list[Machine], list[str]]:
    """Return the hosts as machines, and those that are none.

    :param path: the file for all of them; by default each has the variable ``hpcai_known_hosts``.
    """
    machines: list[Machine] = []
    left_out: list[str] = []
    for host in dict.fromkeys(hosts):
        # Asked for first: what hostvars gives for an unknown host is no mapping.
        known: Any = hostvars[host] if host in hostvars else {}  # noqa: SIM401
        file = path or known.get(PATH_VARIABLE)
        if str(known.get("ansible_connection") or "ssh").rpartition(".")[2] not in _BY_SSH:
            continue
        if file and known.get("azure_id") and known.get("azure_vm_id"):
            target = make_target(known["azure_id"], known["azure_vm_id"])
            machines.append(Machine(host, target, Path(os.path.expanduser(str(file).strip()))))
        else:
            left_out.append(host)
    return machines, left_out


def compare_keys(known: Mapping[Machine, tuple[HostKey, ...]], consoles: Mapping[Target, Console]) -> Outcome:
    """Compare what ssh knows with what the consoles show.

    :param known: the keys that ssh has for each machine.
    :param consoles: the consoles that were looked at.
    """
    outcome = Outcome(machines=len(known))
    for machine, keys in known.items():
        console = consoles.get(machine.target, Console())
        if console.keys:
            wrong = describe_mismatch(machine.name, machine.target.vm_id, machine.path, keys, console.keys)
            if wrong:
                outcome.contradictions.append(wrong)
                continue
            outcome.shown[machine] = console.keys
            new = [key for key in console.keys if key not in keys]
            if new:
                outcome.added[machine] = new
        elif keys:
            outcome.known.append(machine)
        else:
            outcome.unverified[machine] = console.problem
    return outcome


def _reasons(unverified: Mapping[Machine, str]) -> str:
    """Return the reasons, each with the machines that have it."""
    machines: dict[str, list[str]] = {}
    for machine, reason in unverified.items():
        machines.setdefault(reason, []).append(machine.name)
    return listed([f"{listed(names)}: {reason}" for reason, names in machines.items()])
