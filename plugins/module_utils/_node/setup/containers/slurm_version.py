# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which Slurm is installed on this machine, to the last digit of its package, and which its headers are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.run import Run

HEADER = "slurm/slurm_version.h"
PREFIX = "/usr"
"""Below which Slurm is, where nobody says."""
_NUMBER = re.compile(r"#define\s+SLURM_VERSION_NUMBER\s+(0x[0-9a-fA-F]+)")
_VERSION = re.compile(r"\b(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Slurm:
    """The Slurm of a machine.

    :ivar version: such as ``22.05.8``.
    :ivar package: the package's version and release; empty where no package manager knows it.
    """

    version: str
    package: str


def installed_slurm(run: Run, prefix: str = PREFIX) -> Slurm | None:
    """Return the Slurm that is installed below ``prefix``; None if there is none.

    The package database comes first: Slurm's clients do not tell their version without a configuration, which an image
    has not. Its daemons do.
    """
    scontrol = f"{prefix}/bin/scontrol"
    package = _package(run, scontrol)
    found = _VERSION.search(package)
    for command in ([f"{prefix}/sbin/slurmd", "-V"], [f"{prefix}/sbin/slurmctld", "-V"], [scontrol, "--version"]):
        if found:
            break
        answer = run(command)
        found = _VERSION.search(answer.stdout) if answer.rc == 0 else None
    return Slurm(found[1], package) if found else None


def _package(run: Run, scontrol: str) -> str:
    """The release of the package that has scontrol."""
    owner = run(["dpkg-query", "--search", scontrol])
    if owner.rc == 0 and ":" in owner.stdout:
        name = owner.stdout.partition(":")[0].split(",")[0]
        shown = run(["dpkg-query", "--show", "--showformat=${Version}", name])
    else:
        shown = run(["rpm", "--query", "--file", "--queryformat=%{VERSION}-%{RELEASE}", scontrol])
    return shown.stdout.strip() if shown.rc == 0 else ""


def headers_version(root: Root, include: str) -> str | None:
    """Return which Slurm the headers below ``include`` are of; None if there are none."""
    found = _NUMBER.search(root.text(f"{include}/{HEADER}") or "")
    if not found:
        return None
    number = int(found[1], 16)
    return f"{number >> 16 & 0xFF}.{number >> 8 & 0xFF:02d}.{number & 0xFF}"
