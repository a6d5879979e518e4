# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparison of the machines' host keys with SSH's known hosts file, and additions to that file."""

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
    """Return the file's text, or an empty text if there is no file."""
    try:
        return path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def known_keys(text: str, name: str) -> tuple[HostKey, ...]:
    """Return the known keys of a name. Lines with a marker (``@revoked``) or a pattern are ignored."""
    keys = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and _names(fields[0], name.lower()):
            keys.append(HostKey(fields[1], fields[2]))
    return tuple(keys)


def without_keys(text: str, name: str) -> str:
    """Return the file's text without the lines of a name. Lines with a marker stay."""
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not (len(line.split()) >= 3 and _names(line.split(maxsplit=1)[0], name.lower()))
    )


def describe_mismatch(name: str, vm_id: str, path: Path, known: Iterable[HostKey], shown: Iterable[HostKey]) -> str:
    """Return how the known keys differ from those on the machine's console, or an empty text if they agree."""
    right = set(shown)
    wrong = [key for key in known if key not in right]
    if not wrong:
        return ""
    return (
        f"{name}: {path} has the host key {_fingerprints(wrong)} for {vm_id}, but the machine's serial console shows "
        f"{_fingerprints(right)}. Another machine may have answered at the first contact. If you changed the keys or "
        f"reimaged the machine, run: ssh-keygen -f {shlex.quote(str(path))} -R {vm_id}"
    )


def as_lines(vm_id: str, keys: Iterable[HostKey]) -> str:
    """Return the lines to add for the keys of a machine."""
    return "".join(f"{vm_id.lower()} {key}\n" for key in keys)


def with_lines(text: str, lines: str) -> str:
    """Return the file's text with lines added."""
    return text + ("\n" if text and lines and not text.endswith("\n") else "") + lines


def append_lines(path: Path, text: str, lines: str) -> None:
    """Append lines to the file with one write, because ssh may append other lines at the same time.

    :param text: content of the file before.
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
        # The format of HashKnownHosts.
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
    return name in field.lower().split(",")


def _fingerprints(keys: Iterable[HostKey]) -> str:
    return ", ".join(sorted(key.fingerprint for key in keys))


PATH_VARIABLE = "hpcai_known_hosts"
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")


@dataclass(frozen=True)
class Machine:
    """A virtual machine whose host keys are handled.

    :ivar name: its name in messages.
    :ivar path: its known hosts file.
    """

    name: str
    target: Target
    path: Path


@dataclass
class Outcome:
    """Result of the comparison.

    :ivar shown: keys of the machines that were verified now.
    :ivar known: machines with known keys whose consoles show none, or were not read.
    :ivar unverified: machines whose keys cannot be verified, with the reason.
    :ivar contradictions: errors for machines whose known key differs from the console.
    :ivar added: keys to add to the known hosts file.
    :ivar machines: number of all machines.
    """

    shown: dict[Machine, tuple[HostKey, ...]] = field(default_factory=dict)
    known: list[Machine] = field(default_factory=list)
    unverified: dict[Machine, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    added: dict[Machine, list[HostKey]] = field(default_factory=dict)
    machines: int = 0

    def lines(self) -> dict[Path, str]:
        """Return the lines to add to each file."""
        lines: dict[Path, str] = {}
        for machine, keys in self.added.items():
            lines[machine.path] = lines.get(machine.path, "") + as_lines(machine.target.vm_id, keys)
        return lines

    def warnings(self) -> list[str]:
        """Return one warning about all machines that are not verified."""
        if not self.unverified:
            return []
        return [f"{self._count()}, and ssh accepts the first key that it sees from them: {_reasons(self.unverified)}"]

    def refusals(self, left_out: list[str]) -> list[str]:
        """Return the reasons why some machines are not verified."""
        refusals = []
        if self.unverified:
            refusals.append(
                f"{self._count()}: {_reasons(self.unverified)} Enable boot diagnostics, or add a key that you have "
                "verified to the known hosts file, with the vmId in front."
            )
        if left_out:
            refusals.append(
                f"These hosts have no azure_id, azure_vm_id or {PATH_VARIABLE}, so their keys cannot be verified: "
                f"{listed(left_out)}."
            )
        return refusals

    def _count(self) -> str:
        return f"Azure cannot verify the host keys of {len(self.unverified)} of {self.machines} machines"


def machines_of_hosts(
    hosts: Iterable[str], hostvars: Mapping[str, Any], path: str | None
) -> tuple[list[Machine], list[str]]:
    """Return the hosts as machines, and the hosts that lack a variable.

    :param path: the file for all of them. By default the variable ``hpcai_known_hosts`` of each host.
    """
    machines: list[Machine] = []
    left_out: list[str] = []
    for host in dict.fromkeys(hosts):
        # For an unknown host, hostvars returns a value that is not a mapping.
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
    """Compare the known keys with those on the consoles.

    :param known: the known keys of each machine.
    :param consoles: the consoles that were read.
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
    """Return the reasons, each with its machines."""
    machines: dict[str, list[str]] = {}
    for machine, reason in unverified.items():
        machines.setdefault(reason, []).append(machine.name)
    return listed([f"{listed(names)}: {reason}" for reason, names in machines.items()])
