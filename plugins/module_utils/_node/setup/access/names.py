# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Names of the users of jobs by nss_slurm: slurmctld sends them along, and no directory is asked. Pure."""

from __future__ import annotations

import re

NSSWITCH, CONF = "/etc/nsswitch.conf", "/etc/nss_slurm.conf"
HEADER = "# Written by the module hpcai.azure.compute_access, which overwrites it."
_SERVICE = "slurm"
_LINE = re.compile(r"(?m)^(passwd|group):([^\n#]*)(.*)$")


def with_slurm(nsswitch: str) -> str:
    """Return the text with nss_slurm asked after the machine's own files and before any directory."""

    def changed(found: re.Match[str]) -> str:
        words = [word for word in found[2].split() if word != _SERVICE]
        place = words.index("files") + 1 if "files" in words else 0
        words.insert(place, _SERVICE)
        return _line(found, words)

    return _LINE.sub(changed, nsswitch)


def without_slurm(nsswitch: str) -> str:
    """Return the text without nss_slurm."""

    def changed(found: re.Match[str]) -> str:
        words = found[2].split()
        return _line(found, [word for word in words if word != _SERVICE]) if _SERVICE in words else found[0]

    return _LINE.sub(changed, nsswitch)


def _line(found: re.Match[str], words: list[str]) -> str:
    if words == found[2].split():
        return found[0]
    return f"{found[1] + ':':<16}{' '.join(words)}{' ' + found[3] if found[3] else ''}"


def conf(node_name: str | None, spool: str) -> str:
    """Return the text of nss_slurm's own file."""
    name = f"NodeName={node_name}\n" if node_name else ""
    return f"{HEADER}\n{name}SlurmdSpoolDir={spool}\n"
