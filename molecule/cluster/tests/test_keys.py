# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which keys of its files this Slurm takes: what the role says of each is held against Slurm's own programs."""

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
SLURM_CONF = "SLURM_CONF=/tmp/keys/slurm.conf timeout 10 scontrol ping"
SLURMD = "timeout 2 slurmd -D -N n -f /tmp/keys/slurm.conf"
BASIC = {
    "slurm.conf": {*releases.ALWAYS.split()},
    "cgroup.conf": {"ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace"},
    "job_container.conf": {"AutoBasePath", "BasePath"},
}
"""Keys of all releases: those of slurm.conf that the product lists, and those of the other files that it writes."""
OF_SLURMCTLD_ALONE = {"FastSchedule"}
"""Only slurmctld, which would start, refuses these."""


@pytest.fixture(scope="module")
def release(controller: Host) -> releases.Release:
    """This Slurm's release."""
    year, month = controller.check_output("scontrol --version").split()[1].split(".")[:2]
    return int(year), int(month)


def keys_of(file: str) -> list[str]:
    """All keys of a file that the product knows, of any release."""
    changed = (names for table in (releases.CAME, releases.WENT) for names in table.get(file, {}).values())
    return sorted({key for names in changed for key in names.split()} | BASIC[file])


def refused_by_slurm(host: Host, file: str, keys: Iterable[str], program: str) -> set[str]:
    """Those of the keys that a program does not start with."""
    host.check_output("mkdir -p /tmp/keys")
    host.check_output(f"echo {shlex.quote(CONF)} > /tmp/keys/base.conf")
    host.check_output(": > /tmp/keys/cgroup.conf; echo AutoBasePath=true > /tmp/keys/job_container.conf")
    loop = (
        f"for key in {' '.join(keys)}; do cp /tmp/keys/base.conf /tmp/keys/slurm.conf; "
        f'echo "$key=1" >> /tmp/keys/{file}; echo "key $key"; {program} 2>&1; '
        f": > /tmp/keys/cgroup.conf; echo AutoBasePath=true > /tmp/keys/job_container.conf; done"
    )
    said = host.check_output(f"{loop}; rm -rf /tmp/keys")
    parts = [part.partition("\n") for part in said.split("key ")[1:]]
    assert len(parts) >= 2, said
    return {key for key, _newline, words in parts if any(key in found for found in REFUSED.findall(words))}


def refused_by_the_role(file: str, keys: Iterable[str], release: releases.Release) -> set[str]:
    """Those that the role refuses for this release."""
    refused = set()
    for key in keys:
        try:
            check_keys(file, [key], release)
        except ConfigError:
            refused.add(key)
    return refused


def test_keys_of_slurm_conf_are_those_of_the_programs(controller: Host, release: releases.Release) -> None:
    keys = [key for key in keys_of("slurm.conf") if key not in OF_SLURMCTLD_ALONE]
    refused = refused_by_slurm(controller, "slurm.conf", keys, SLURM_CONF)
    assert refused == refused_by_the_role("slurm.conf", keys, release)
    assert refused, "each release refuses some"


@pytest.mark.parametrize("file", ["cgroup.conf", "job_container.conf"])
def test_keys_of_slurmds_files_are_those_of_the_program(
    computes: list[Host], release: releases.Release, file: str
) -> None:
    keys = keys_of(file)
    refused = refused_by_slurm(computes[0], file, keys, SLURMD)
    assert refused == refused_by_the_role(file, keys, release)
    assert refused or file == "job_container.conf", "each release refuses RootOwnedCgroups"
