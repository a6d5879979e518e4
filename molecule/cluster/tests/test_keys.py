# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the keys that the role accepts for this release with those that Slurm's programs accept."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

import pytest
from testinfra.host import Host

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import releases
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import check_keys

CONF = """\
ClusterName=keys
SlurmctldHost=localhost
SlurmctldPort=16817
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
BASIC = {
    "slurm.conf": {*releases.ALWAYS.split()},
    "cgroup.conf": {"ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace"},
    "job_container.conf": {"AutoBasePath", "BasePath"},
}
"""Keys of all releases: those of slurm.conf that the product lists, and those of the other files that it writes."""
ONLY_FOR_SLURMCTLD = {"FastSchedule"}
"""Only slurmctld refuses these, and the test does not start it."""
UNKNOWN_KEY = "NoSuchKey"
"""If a program refuses this key, it has read the file."""


@pytest.fixture(scope="module")
def release(controller: Host) -> releases.Release:
    """This Slurm's release."""
    year, month = controller.check_output("scontrol --version").split()[1].split(".")[:2]
    return int(year), int(month)


def keys_by_role(file: str, release: releases.Release) -> tuple[set[str], set[str]]:
    """Return the keys that the product accepts for this release, and those that it only accepts for others."""
    changed = (names for table in (releases.CAME, releases.WENT) for names in table.get(file, {}).values())
    keys = {key for names in changed for key in names.split()} | BASIC[file]
    refused = set()
    for key in keys - ONLY_FOR_SLURMCTLD:
        try:
            check_keys(file, [key], release)
        except ConfigError:
            refused.add(key)
    return keys - ONLY_FOR_SLURMCTLD - refused, refused


def refused_by_slurm(host: Host, file: str, groups: Iterable[Iterable[str]], program: str) -> set[str]:
    """Return the keys that a program refuses; it starts once for each group of keys."""
    host.check_output(f"mkdir -p /tmp/keys && echo {shlex.quote(CONF)} > /tmp/keys/base.conf")
    found = set()
    loop = "".join(
        "cp base.conf slurm.conf; : > cgroup.conf; echo AutoBasePath=true > job_container.conf; "
        f"for key in {' '.join(keys)}; do echo $key=1 >> {file}; done; {program} 2>&1; "
        for keys in groups
    )
    for words in REFUSED.findall(host.check_output(f"cd /tmp/keys; {loop} rm -rf /tmp/keys")):
        found |= {word for word in words if word}
    return found


def test_accepted_keys_of_slurm_conf_match_slurms_programs(controller: Host, release: releases.Release) -> None:
    accepted, refused = keys_by_role("slurm.conf", release)
    found = refused_by_slurm(controller, "slurm.conf", [[key] for key in (*accepted, *refused, UNKNOWN_KEY)], SCONTROL)
    assert found == refused | {UNKNOWN_KEY}


@pytest.mark.parametrize("file", ["cgroup.conf", "job_container.conf"])
def test_accepted_keys_of_slurmds_files_match_slurmd(
    computes: list[Host], release: releases.Release, file: str
) -> None:
    """A slurmd that accepts its keys runs until its timeout, so it gets all accepted keys at once."""
    accepted, refused = keys_by_role(file, release)
    found = refused_by_slurm(computes[0], file, [accepted, *([key] for key in (*refused, UNKNOWN_KEY))], SLURMD)
    assert found == refused | {UNKNOWN_KEY}
