# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's releases, and which of them know which key of which file."""

from __future__ import annotations

from collections.abc import Mapping

Release = tuple[int, int]

OLDEST: Release = (22, 5)
"""The oldest supported release."""
NEWEST_WITH_KNOWN_EFFECTS: Release = (25, 11)
"""What a change of a key needs is known for the keys of 22.05, 23.11, 24.11 and 25.11."""

# First and last release that know a key, if 22.05 to 26.05 differ; read from the tables of keys at the tags
# slurm-22-05-0-1 to slurm-26-05-0-1 of Slurm's repository: slurm_conf_options in src/common/read_config.c, the options
# in src/interfaces/cgroup.c and in read_jcconf.c of job_container/tmpfs (namespace/tmpfs since 25.11). A daemon does
# not start with an unknown key.
_CAME: Mapping[str, Mapping[Release, str]] = {
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
_WENT: Mapping[str, Mapping[Release, str]] = {
    "slurm.conf": {
        (23, 2): "SlurmctldPlugstack",
        (24, 5): "SchedulerAuth",
        (25, 5): "FrontendName",
        (25, 11): "AccountingStorageLoc",
    },
    "cgroup.conf": {
        # CgroupAutomount is read but has no effect since 23.11 (RELEASE_NOTES of 23.11).
        (23, 11): "AllowedKmemSpace CgroupAutomount ConstrainKmemSpace MaxKmemPercent MinKmemSpace RootOwnedCgroups",
        (25, 11): "CgroupReleaseAgentDir",
    },
}
# The keys of slurm.conf that all releases from 22.05 to 25.11 know (slurm_conf_options in Slurm's read_config.c), in
# lower case.
_ALWAYS = """
    accountingstoragebackuphost accountingstorageenforce accountingstorageexternalhost accountingstoragehost
    accountingstorageparameters accountingstoragepass accountingstorageport accountingstoragetres
    accountingstoragetype accountingstorageuser accountingstoreflags accountingstorejobcomment
    acctgatherenergytype acctgatherfilesystemtype acctgatherinfinibandtype acctgatherinterconnecttype
    acctgathernodefreq acctgatherprofiletype allowspecresourcesusage authaltparameters authalttypes authinfo
    authtype backupaddr backupcontroller batchstarttimeout bcastexclude bcastparameters burstbufferparameters
    burstbuffertype clifilterplugins clustername communicationparameters completewait controladdr controlmachine
    corespecplugin cpufreqdef cpufreqgovernors credtype cryptotype debugflags defcpupergpu defmempercpu
    defmempergpu defmempernode dependencyparameters disablerootjobs downnodes eiotimeout enforcepartlimits
    epilog epilogmsgtime epilogslurmctld extsensorsfreq extsensorstype fairsharedampeningfactor fastschedule
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
    sallocdefaultcommand sbcastparameters schedulerparameters schedulertimeslice schedulertype scronparameters
    selecttype selecttypeparameters slurmctldaddr slurmctlddebug slurmctldhost slurmctldlogfile
    slurmctldparameters slurmctldpidfile slurmctldport slurmctldprimaryoffprog slurmctldprimaryonprog
    slurmctldsyslogdebug slurmctldtimeout slurmddebug slurmdlogfile slurmdparameters slurmdpidfile slurmdport
    slurmdspooldir slurmdsyslogdebug slurmdtimeout slurmduser slurmschedlogfile slurmschedloglevel slurmuser
    srunepilog srunportrange srunprolog statesavelocation suspendexcnodes suspendexcparts suspendprogram
    suspendrate suspendtime suspendtimeout switchparameters switchtype taskepilog taskplugin taskpluginparam
    taskprolog tcptimeout tmpfs topologyparam topologyplugin trackwckey treewidth unkillablestepprogram
    unkillablesteptimeout usepam vsizefactor waittime x11parameters
"""


def shown(release: Release) -> str:
    """Return a release in Slurm's notation."""
    return f"{release[0]}.{release[1]:02}"


def came_with(file: str, key: str) -> Release | None:
    """Return the first release that knows a key; None if it is not in the table of new keys."""
    return _release_in(_CAME, file, key)


def gone_since(file: str, key: str) -> Release | None:
    """Return the first release that no longer knows a key; None if it is not in the table of removed keys."""
    return _release_in(_WENT, file, key)


def has_known_effects(key: str) -> bool:
    """Whether it is known what a change of this slurm.conf key needs."""
    came = came_with("slurm.conf", key)
    if came:
        return came <= NEWEST_WITH_KNOWN_EFFECTS
    return key.lower() in _ALWAYS.split() or gone_since("slurm.conf", key) is not None


def _release_in(table: Mapping[str, Mapping[Release, str]], file: str, key: str) -> Release | None:
    for release, names in table.get(file, {}).items():
        if key.lower() in names.lower().split():
            return release
    return None
