# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys that the role accepts for a release of Slurm, and those that Slurm's programs refuse."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import releases
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import check_keys, release_of

Run = Callable[[str], str]
"""Runs a command of the shell as root on a machine, and returns its output."""

CONF = """\
ClusterName=keys
SlurmctldHost=localhost
SlurmctldPort=16817
SlurmctldPidFile=/tmp/keys/slurmctld.pid
SlurmdPort=16818
StateSaveLocation=/tmp/keys
SlurmdSpoolDir=/tmp/keys
SlurmdPidFile=/tmp/keys/slurmd.pid
JobContainerType=job_container/tmpfs
PrologFlags=Contain
NodeName=n
PartitionName=p Nodes=n
"""
REFUSED = re.compile(r"unrecognized key: (\w+)|fatal: (?:The )?(\w+) (?:option )?has been removed")
SCONTROL = "SLURM_CONF=/tmp/keys/slurm.conf scontrol show hostnames n"
SLURMD = "timeout 5 slurmd -D -N n -f /tmp/keys/slurm.conf"
SLURMCTLD = "timeout 5 slurmctld -D -f /tmp/keys/slurm.conf"
BASIC = {
    "slurm.conf": {*releases.ALWAYS.split()},
    "cgroup.conf": {"ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace"},
    "job_container.conf": {"AutoBasePath", "BasePath"},
}
"""Keys of all releases: those of slurm.conf that the product lists, and those of the other files that it writes."""
ONLY_FOR_SLURMCTLD = {"FastSchedule": "0"}
"""Only slurmctld refuses these, and only with another value than 1 (read_config.c)."""
UNKNOWN_KEY = "NoSuchKey"
"""If a program refuses this key, it has read the file."""


def keys_by_role(file: str, release: releases.Release) -> tuple[set[str], set[str]]:
    """Return the keys that the product accepts for this release, and those that it only accepts for others."""
    changed = (names for table in (releases.CAME, releases.WENT) for names in table.get(file, {}).values())
    keys = {key for names in changed for key in names.split()} | BASIC[file]
    refused = set()
    for key in keys - ONLY_FOR_SLURMCTLD.keys():
        try:
            check_keys(file, [key], release)
        except ConfigError:
            refused.add(key)
    return keys - ONLY_FOR_SLURMCTLD.keys() - refused, refused


def refused_by_slurm(run: Run, file: str, groups: Iterable[Iterable[str]], program: str, value: str = "1") -> set[str]:
    """Return the keys that a program refuses; it starts once for each group of keys."""
    run(f"mkdir -p /tmp/keys && echo {shlex.quote(CONF)} > /tmp/keys/base.conf")
    found = set()
    loop = "".join(
        "cp base.conf slurm.conf; : > cgroup.conf; echo AutoBasePath=true > job_container.conf; "
        f"for key in {' '.join(keys)}; do echo $key={value} >> {file}; done; {program} 2>&1; "
        for keys in groups
    )
    for words in REFUSED.findall(run(f"cd /tmp/keys; {loop} rm -rf /tmp/keys")):
        found |= {word for word in words if word}
    return found


def release_on(run: Run) -> releases.Release:
    """The release of a machine's Slurm."""
    return release_of(run("scontrol --version").split()[1])


def compare_slurm_conf(run: Run) -> tuple[set[str], set[str]]:
    """Return the keys of slurm.conf that the programs of a controller refuse, and those that they should refuse."""
    accepted, refused = keys_by_role("slurm.conf", release_on(run))
    groups = [[key] for key in (*accepted, *refused, UNKNOWN_KEY)]
    found = refused_by_slurm(run, "slurm.conf", groups, SCONTROL)
    for key, value in ONLY_FOR_SLURMCTLD.items():
        found |= refused_by_slurm(run, "slurm.conf", [[key]], SLURMCTLD, value)
    return found, refused | {UNKNOWN_KEY} | ONLY_FOR_SLURMCTLD.keys()
