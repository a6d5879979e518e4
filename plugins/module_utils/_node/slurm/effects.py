# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a change of Slurm's configuration needs before it is in effect: ``scontrol reconfigure``, or a restart of which
daemon. Each answer names its source.

Until 23.02 a daemon that is told to reconfigure reads its files again and keeps the plugins that it loaded at its
start. From 23.11 on it starts itself anew, and hands over to the new process (scontrol(1): "this command operates by
creating new processes for the daemons"), so little needs more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from . import known_keys

Release = tuple[int, int]

NEW_PROCESSES: Release = (23, 11)
NODES_BY_RECONFIGURE: Release = (24, 11)
"""slurm.conf(5) asks for restarts until 24.05, and from 24.11 on for "restarting or reconfiguring"."""

_MANUAL = "slurm.conf(5)"
_AT_START = "slurmctld's controller.c and slurmd's slurmd.c load this plugin at their start alone"


class Need(IntEnum):
    """What a daemon needs, the greater the more."""

    NOTHING = 0
    RECONFIGURE = 1
    RESTART = 2


@dataclass(frozen=True)
class Effect:
    """What a change needs.

    :ivar source: where it is written.
    :ivar loses_jobs: slurmctld forgets jobs, running ones too.
    :ivar needs_idle_node: it disturbs jobs that run on the node.
    """

    slurmctld: Need
    slurmd: Need
    source: str
    loses_jobs: bool = False
    needs_idle_node: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RECONFIGURE = Effect(Need.RECONFIGURE, Need.RECONFIGURE, f"{_MANUAL}: 'scontrol reconfigure' unless otherwise noted")

# In lower case. slurm.conf(5) of 22.05: "A restart of slurmctld is required for changes to this parameter".
_RESTARTS_SLURMCTLD = _words(
    """
    accountingstorageenforce credtype jobcontainertype maxjobcount maxnodecount powerplugin proctracktype
    schedulertype selecttypeparameters slurmctldhost slurmctldparameters slurmctldport slurmdport
    statesavelocation
    """
)
# "A restart of slurmctld and the slurmd daemons", the same page.
_RESTARTS_BOTH = _words("grestypes plugindir selecttype switchtype")
_RESTARTS_SLURMD = _words("corespecplugin")
# The page is silent, and a reconfigured daemon keeps what it loaded.
_LOADED_AT_START = _words(
    """
    accountingstoragetype acctgatherenergytype acctgatherfilesystemtype acctgatherinterconnecttype
    acctgatherprofiletype authalttypes authaltparameters authinfo authtype burstbuffertype clustername
    cryptotype extsensorstype jobacctgathertype jobcomptype jobsubmitplugins mcsplugin nodefeaturesplugins
    preempttype prepplugins prioritytype routeplugin slurmuser slurmctldplugstack topologyplugin
    """
)
# What a slurmd loads, or opens, once (slurmd.c, _slurmd_init and main).
_SLURMD_LOADED = _words(
    """
    acctgatherenergytype acctgatherfilesystemtype acctgatherinterconnecttype acctgatherprofiletype authalttypes
    authaltparameters authinfo authtype credtype cryptotype jobacctgathertype jobcontainertype
    nodefeaturesplugins plugstackconfig prepplugins proctracktype routeplugin selecttypeparameters
    slurmdparameters slurmdpidfile slurmdport slurmdspooldir slurmduser slurmuser taskplugin topologyplugin
    """
)
# From 23.11 on: "This will not be able to change the daemons' listening TCP port settings or authentication mechanism".
_NEVER_BY_RECONFIGURE = _words(
    "authalttypes authaltparameters authinfo authtype credtype cryptotype slurmctldhost slurmctldport slurmuser"
)
_NEVER_BY_RECONFIGURE_SLURMD = _words(
    "authalttypes authaltparameters authinfo authtype credtype cryptotype slurmdport slurmdspooldir slurmduser"
)
# "all job information will be lost", "records of all jobs in any state may be lost"; and a queue that lies elsewhere.
_LOSES_JOBS = _words("clustername selecttype statesavelocation switchtype")

_FILES = {
    "cgroup.conf": _RECONFIGURE,
    "topology.conf": Effect(Need.RECONFIGURE, Need.RECONFIGURE, "topology.conf(5)"),
    "acct_gather.conf": Effect(Need.RESTART, Need.RESTART, "acct_gather.conf(5): upon restart of the daemons"),
}


def effect_of(key: str, release: Release) -> Effect:
    """Return what a change of this key of slurm.conf needs. A key that this list does not know needs restarts."""
    key = key.lower()
    loses = key in _LOSES_JOBS
    if key not in known_keys.ALL:
        return Effect(Need.RESTART, Need.RESTART, "a key that this collection does not know", loses)
    if release >= NEW_PROCESSES:
        source = "scontrol(1): not listening ports and authentication"
        slurmctld = Need.RESTART if key in _NEVER_BY_RECONFIGURE or loses else Need.RECONFIGURE
        slurmd = Need.RESTART if key in _NEVER_BY_RECONFIGURE_SLURMD or key == "selecttype" else Need.RECONFIGURE
        return Effect(slurmctld, slurmd, source, loses) if Need.RESTART in (slurmctld, slurmd) else _RECONFIGURE
    in_manual = key in _RESTARTS_SLURMCTLD or key in _RESTARTS_BOTH or key in _RESTARTS_SLURMD
    slurmctld = Need.RESTART if key in _RESTARTS_SLURMCTLD | _RESTARTS_BOTH | _LOADED_AT_START else Need.RECONFIGURE
    slurmd = Need.RESTART if key in _RESTARTS_SLURMD | _RESTARTS_BOTH | _SLURMD_LOADED else Need.RECONFIGURE
    if Need.RESTART not in (slurmctld, slurmd):
        return _RECONFIGURE
    return Effect(slurmctld, slurmd, _MANUAL if in_manual else _AT_START, loses)


def effect_of_nodes(release: Release) -> Effect:
    """Return what it needs to add, remove and change nodes.

    Until 23.02 slurmctld ends with "hostnames inconsistency detected" if it is told to reconfigure with other nodes
    than it has (read_slurm_conf in its read_config.c).
    """
    if release >= NODES_BY_RECONFIGURE:
        return Effect(Need.RECONFIGURE, Need.RECONFIGURE, f"{_MANUAL}, NODE CONFIGURATION")
    return Effect(Need.RESTART, Need.RECONFIGURE, f"{_MANUAL}, NODE CONFIGURATION: restarting slurmctld")


def effect_of_own_hardware(release: Release) -> Effect:
    """Return what a change of its own processors, memory or GRES needs on a node."""
    if release >= NODES_BY_RECONFIGURE:
        return effect_of_nodes(release)
    return Effect(Need.RESTART, Need.RESTART, f"{_MANUAL}, NODE CONFIGURATION: restarting slurmctld and slurmd")


def effect_of_partitions(is_removed: bool) -> Effect:
    """Return what it needs to change partitions.

    "If a partition that is in use is deleted ... jobs using the partition are canceled" (slurm.conf(5)).
    """
    return Effect(Need.RECONFIGURE, Need.RECONFIGURE, f"{_MANUAL}, PARTITION CONFIGURATION", loses_jobs=is_removed)


def effect_of_file(name: str, release: Release) -> Effect:
    """Return what a change of another file needs."""
    if name == "job_container.conf":
        source = f"{name}(5): 'slurmd will need to be restarted', and 'no jobs are running'"
        slurmctld = Need.NOTHING if release < NEW_PROCESSES else Need.RECONFIGURE
        return Effect(slurmctld, Need.RESTART, source, needs_idle_node=True)
    if name == "gres.conf":
        slurmd = Need.RESTART if release < NEW_PROCESSES else Need.RECONFIGURE
        return Effect(Need.RESTART, slurmd, "gres.conf(5): changes to Cores and Type")
    if name == "plugstack.conf":
        slurmd = Need.RESTART if release < NEW_PROCESSES else Need.RECONFIGURE
        return Effect(Need.RECONFIGURE, slurmd, "slurmd's slurmd.c: spank_slurmd_init at its start alone")
    if name == "cgroup.conf CgroupPlugin":
        return effect_of("ProctrackType", release)
    return _FILES.get(name, _RECONFIGURE if name.startswith("cgroup.conf") else Effect(
        Need.RESTART, Need.RESTART, "a file that this collection does not know"))  # fmt: skip
