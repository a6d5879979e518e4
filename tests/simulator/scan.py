# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches a root file system for what must not be in an image: keys, and files of one machine or cluster.

It does not depend on the code that cleans an image: it checks the names of all files, and the content of every file
smaller than 1 MiB.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

LARGEST = 1 << 20
"""Files of this size in bytes and larger ones are not read; keys are smaller."""

OF_A_MACHINE = (
    r"etc/ssh/ssh_host_.*",
    r"(root|home/.*)/\.ssh/.*",
    r".*/authorized_keys\d?",
    r"etc/munge/.+",
    r"etc/hpcai/(cluster\.json|slurmd\.env|munge\.key)",
    r"var/lib/hpcai/.+",
    r"run/.+",
    r"etc/hostname",
    r"var/lib/dbus/machine-id",
    r"var/lib/systemd/(random-seed|credential\.secret|timesync/clock)",
    r"(root|home/[^/]+)/\.[a-z]*(_history|hst|viminfo|wget-hsts)",
    r"var/lib/cloud/(?!seed/|scripts/).+",
    r"var/lib/waagent/.+",
    r"var/lib/(dhcp|dhclient|NetworkManager)/.+",
    r"(root|home/[^/]+)/\.(ansible|cache)/.+",
    r"(tmp|var/tmp)/.+",
    r"var/lib/slurm/.+",
    r"var/lib/simulator-provision/.+",
    r"etc/simulator-bake",
)
"""Files that a machine makes or gets: patterns that match the complete relative path."""
EMPTY = (r"etc/machine-id", r"var/log/.+")
"""Files that may exist but must be empty."""
PRIVATE_KEY = re.compile(
    rb"-----BEGIN ((RSA|DSA|EC|OPENSSH|ENCRYPTED|ANY) )?PRIVATE KEY-----\s+([A-Za-z-]+: [^\n]*\n)*\s*[A-Za-z0-9+/=]{20}"
    rb"|PuTTY-User-Key-File-\d: ssh"
    rb"|AGE-SECRET-KEY-1[A-Z0-9]{20}"
)
ONE_MACHINES_SIZE = re.compile(rb'"vm_size"\s*:')
PASSWORD = re.compile(rb"^[^:\n]+:\$[^:\n]+:", re.MULTILINE)

_OF_A_MACHINE = re.compile("|".join(f"(?:{pattern})" for pattern in OF_A_MACHINE))
_EMPTY = re.compile("|".join(f"(?:{pattern})" for pattern in EMPTY))
_DOCUMENTATION = re.compile(r"usr/(share|local/share)/(doc|man|info)/.*")
_HOME_OF_PEOPLE = re.compile(r"home/[^/]+/(?P<rest>.+)")


def scan(root: Path, known: Sequence[bytes] = ()) -> list[str]:
    """Return one line for each problem: the path, and what is wrong.

    :param known: secrets of running clusters, to search for in every file.
    """
    found: list[str] = []
    for path, size in _files(root):
        name = str(path.relative_to(root))
        if _OF_A_MACHINE.fullmatch(name) or _is_personal(root, path, name):
            found.append(f"/{name}: belongs to one machine or cluster")
        if _EMPTY.fullmatch(name) and size:
            found.append(f"/{name}: {size} bytes, should be empty")
        if size < LARGEST:
            found += [f"/{name}: {what}" for what in _inside(name, path.read_bytes(), known)]
    return found


def _is_personal(root: Path, path: Path, name: str) -> bool:
    """Whether it is a file in a home folder, other than an unchanged file of /etc/skel."""
    home = _HOME_OF_PEOPLE.fullmatch(name)
    if not home:
        return False
    skeleton = root / "etc/skel" / home["rest"]
    return not (skeleton.is_file() and skeleton.read_bytes() == path.read_bytes())


def _files(root: Path) -> Iterator[tuple[Path, int]]:
    """Regular files with their sizes. Links are not followed."""
    for folder, _folders, names in os.walk(root):
        for name in sorted(names):
            path = Path(folder) / name
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                yield path, about.st_size


def _inside(name: str, content: bytes, known: Sequence[bytes]) -> Iterator[str]:
    if PRIVATE_KEY.search(content) and not _DOCUMENTATION.fullmatch(name):
        yield "a private key"
    if name in ("etc/shadow", "etc/shadow-") and PASSWORD.search(content):
        yield "an account with a password"
    if name == "etc/hpcai/node.json" and ONE_MACHINES_SIZE.search(content):
        yield "the VM size of one machine"
    if any(secret in content for secret in known):
        yield "a secret of a running cluster"
