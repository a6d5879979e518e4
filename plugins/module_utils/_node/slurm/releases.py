# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's releases, and which of them know which key of which file."""

from __future__ import annotations

import re
from collections.abc import Mapping

Release = tuple[int, int]

OLDEST: Release = (22, 5)
"""The oldest supported release."""
NEWEST_WITH_KNOWN_EFFECTS: Release = (25, 11)
"""What a change of a key needs is known for the keys of 22.05, 23.11, 24.11 and 25.11."""

# Until 24.05 there was a release every nine months, since then each May and November (slurm.schedmd.com/upgrades.html).
_BEFORE_24_05 = ("20.02", "20.11", "21.08", "22.05", "23.02", "23.11")

# First and last release that know a key, if 22.05 to 26.05 differ; read from the tables of keys at the tags
# slurm-22-05-0-1 to slurm-26-05-0-1 of Slurm's repository: slurm_conf_options in src/common/read_config.c, the options
# in src/interfaces/cgroup.c and in read_jcconf.c of job_container/tmpfs (namespace/tmpfs since 25.11). A daemon does
# not start with an unknown key.
CAME: Mapping[str, Mapping[Release, str]] = {
    "slurm.conf": {
        (23, 2): "MaxBatchRequeue PreemptParameters SuspendExcStates",
        (24, 5): "HashPlugin TLSParameters TLSType",
        (24, 11): "CertmgrParameters CertmgrType DataParserParameters",
        (25, 5): "CertgenParameters CertgenType EpilogTimeout PrologTimeout",
        (25, 11): "CliFilterParameters HttpParserType JobCompPassScript MetricsType NamespaceType UrlParserType",
        (26, 5): "HealthCheckTimeout LicenseParameters MetricsAuthUsers MetricsParameters PowerAction "
        "SlurmctldHttpAuthParameters SlurmdHttpAuthParameters",
    },
    "cgroup.conf": {
        (23, 11): "EnableControllers SignalChildrenProcesses",
        (24, 5): "SystemdTimeout",
        (25, 5): "EnableExtraControllers",
        (25, 11): "CgroupSlice",
    },
    "job_container.conf": {
        (23, 2): "Dirs Shared",
        (24, 11): "CloneNSEpilog CloneNSScript EntireStepInNS",
    },
}
# The first release that refuses a key: either its table lacks the key, or the daemon ends after parsing it ("has been
# removed", read_config.c). Keys that all supported releases refuse are at OLDEST.
WENT: Mapping[str, Mapping[Release, str]] = {
    "slurm.conf": {
        OLDEST: "AccountingStorageLoc AccountingStoreJobComment FastSchedule SallocDefaultCommand",
        (23, 2): "SlurmctldPlugstack",
        (24, 5): "SchedulerAuth",
        (25, 5): "FrontendName",
    },
    "cgroup.conf": {
        OLDEST: "RootOwnedCgroups",
        # Not CgroupAutomount: since 23.11 it has no effect, but no release refuses it (RELEASE_NOTES of 23.11).
        (23, 11): "AllowedKmemSpace ConstrainKmemSpace MaxKmemPercent MinKmemSpace",
        (25, 11): "CgroupReleaseAgentDir",
    },
}
CLOUD_NODES_SHOWN: Release = (23, 2)
"""RELEASE_NOTES of 23.02: 'Change cloud nodes to show by default. PrivateData=cloud is no longer needed'."""
GPU_AUTODETECT: Mapping[str, Release] = {
    # src/plugins/gpu in Slurm's repository has "nvidia" since the tag slurm-24-11-0-1. The others need a Slurm that was
    # built with the vendor's library, which is not the case in any distribution.
    "nvidia": (24, 11),
    "nvml": OLDEST,
}
SCONTROL_JSON: Release = (23, 2)
"""The first release whose scontrol has --json: the option is not in src/scontrol/scontrol.c of 22.05."""
# The keys of slurm.conf that all releases from 22.05 to 25.11 know (slurm_conf_options in Slurm's read_config.c), in
# lower case.
ALWAYS = """
    accountingstoragebackuphost accountingstorageenforce accountingstorageexternalhost accountingstoragehost
    accountingstorageparameters accountingstoragepass accountingstorageport accountingstoragetres
    accountingstoragetype accountingstorageuser accountingstoreflags
    acctgatherenergytype acctgatherfilesystemtype acctgatherinfinibandtype acctgatherinterconnecttype
    acctgathernodefreq acctgatherprofiletype allowspecresourcesusage authaltparameters authalttypes authinfo
    authtype backupaddr backupcontroller batchstarttimeout bcastexclude bcastparameters burstbufferparameters
    burstbuffertype clifilterplugins clustername communicationparameters completewait controladdr controlmachine
    corespecplugin cpufreqdef cpufreqgovernors credtype cryptotype debugflags defcpupergpu defmempercpu
    defmempergpu defmempernode dependencyparameters disablerootjobs downnodes eiotimeout enforcepartlimits
    epilog epilogmsgtime epilogslurmctld extsensorsfreq extsensorstype fairsharedampeningfactor
    federationparameters firstjobid getenvtimeout gpufreqdef grestypes groupupdateforce groupupdatetime
    healthcheckinterval healthchecknodestate healthcheckprogram inactivelimit interactivestepoptions
    jobacctgatherfrequency jobacctgatherparams jobacctgathertype jobcomphost jobcomploc jobcompparams
    jobcomppass jobcompport jobcomptype jobcompuser jobcontainertype jobcredentialprivatekey
    jobcredentialpubliccertificate jobfileappend jobrequeue jobsubmitplugins keepalivetime killonbadexit
    killwait launchparameters launchtype licenses logtimeformat maildomain mailprog maxarraysize maxdbdmsgs
    maxjobcount maxjobid maxmempercpu maxmempernode maxnodecount maxstepcount maxtaskspernode mcsparameters
    mcsplugin messagetimeout minjobage mpidefault mpiparams nodefeaturesplugins nodename nodeset overtimelimit
    partitionname plugindir plugstackconfig powerparameters powerplugin preemptexempttime preemptmode
    preempttype prepparameters prepplugins prioritycalcperiod prioritydecayhalflife priorityfavorsmall
    priorityflags prioritymaxage priorityparameters prioritysitefactorparameters prioritysitefactorplugin
    prioritytype priorityusageresetperiod priorityweightage priorityweightassoc priorityweightfairshare
    priorityweightjobsize priorityweightpartition priorityweightqos priorityweighttres privatedata proctracktype
    prolog prologepilogtimeout prologflags prologslurmctld propagateprioprocess propagateresourcelimits
    propagateresourcelimitsexcept rebootprogram reconfigflags requeueexit requeueexithold resumefailprogram
    resumeprogram resumerate resumetimeout resvepilog resvoverrun resvprolog returntoservice routeplugin
    sbcastparameters schedulerparameters schedulertimeslice schedulertype scronparameters
    selecttype selecttypeparameters slurmctldaddr slurmctlddebug slurmctldhost slurmctldlogfile
    slurmctldparameters slurmctldpidfile slurmctldport slurmctldprimaryoffprog slurmctldprimaryonprog
    slurmctldsyslogdebug slurmctldtimeout slurmddebug slurmdlogfile slurmdparameters slurmdpidfile slurmdport
    slurmdspooldir slurmdsyslogdebug slurmdtimeout slurmduser slurmschedlogfile slurmschedloglevel slurmuser
    srunepilog srunportrange srunprolog statesavelocation suspendexcnodes suspendexcparts suspendprogram
    suspendrate suspendtime suspendtimeout switchparameters switchtype taskepilog taskplugin taskpluginparam
    taskprolog tcptimeout tmpfs topologyparam topologyplugin trackwckey treewidth unkillablestepprogram
    unkillablesteptimeout usepam vsizefactor waittime x11parameters
"""


class UnknownRelease(ValueError):
    """A text that is not a release of Slurm."""


def in_version(printed: str) -> Release:
    """Return the release in the output of ``scontrol --version``; the oldest supported one if there is none."""
    stated = re.search(r"(\d+)\.(\d+)", printed)
    return (int(stated[1]), int(stated[2])) if stated else OLDEST


def releases_apart(older: str, newer: str) -> int:
    """Return how many releases one is after the other; negative if it is before. Releases are like ``22.05``.

    :raises UnknownRelease: one is not a known release of Slurm.
    """
    return _ordinal(newer) - _ordinal(older)


def accepted(release: str) -> int:
    """Return how many releases back a release can read state: two, and three since 24.11.

    :raises UnknownRelease: it is not a known release of Slurm.
    """
    return 3 if _ordinal(release) >= _ordinal("24.11") else 2


def upgrade_problem(installed: str, target: str) -> str:
    """Return why the installed release cannot be upgraded to another in one step; empty if it can. Pure.

    :raises UnknownRelease: one is not a known release of Slurm.
    """
    apart, most = releases_apart(installed, target), accepted(target)
    if apart < 0:
        return f"Slurm {target} is older than the installed {installed} and cannot read files of newer releases."
    if apart > most:
        oldest = _at(_ordinal(target) - most)
        return (
            f"Slurm {target} reads the state and the database of {oldest} and later, but {installed} is installed. "
            f"First upgrade to a release between {oldest} and {target} that reads {installed}."
        )
    return ""


def _ordinal(release: str) -> int:
    if release in _BEFORE_24_05:
        return _BEFORE_24_05.index(release)
    match = re.fullmatch(r"(\d\d)\.(05|11)", release)
    if not match or int(match[1]) < 24:
        raise UnknownRelease(f"{release!r} is not a known release of Slurm.")
    return len(_BEFORE_24_05) + 2 * (int(match[1]) - 24) + (match[2] == "11")


def _at(ordinal: int) -> str:
    if ordinal < len(_BEFORE_24_05):
        return _BEFORE_24_05[ordinal]
    years, half = divmod(ordinal - len(_BEFORE_24_05), 2)
    return f"{24 + years}.{'11' if half else '05'}"


def shown(release: Release) -> str:
    """Return a release in Slurm's notation."""
    return f"{release[0]}.{release[1]:02}"


def came_with(file: str, key: str) -> Release | None:
    """Return the first release that knows a key; None if it is not in the table of new keys."""
    return _release_in(CAME, file, key)


def has_come(file: str, key: str, release: Release) -> bool:
    """Whether a key is not newer than this release."""
    return (came_with(file, key) or release) <= release


def gone_since(file: str, key: str) -> Release | None:
    """Return the first release that refuses a key it once had; None if it is not in the table of removed keys."""
    return _release_in(WENT, file, key)


def has_known_effects(key: str) -> bool:
    """Whether it is known what a change of this slurm.conf key needs."""
    came = came_with("slurm.conf", key)
    if came:
        return came <= NEWEST_WITH_KNOWN_EFFECTS
    return key.lower() in ALWAYS.split() or gone_since("slurm.conf", key) is not None


def _release_in(table: Mapping[str, Mapping[Release, str]], file: str, key: str) -> Release | None:
    for release, names in table.get(file, {}).items():
        if key.lower() in names.lower().split():
            return release
    return None
