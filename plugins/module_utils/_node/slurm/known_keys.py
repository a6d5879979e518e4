# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The keys of slurm.conf in 22.05, 23.11, 24.11 and 25.11 (slurm_conf_options in Slurm's read_config.c)."""

from __future__ import annotations

_ALL = """
    accountingstoragebackuphost accountingstorageenforce accountingstorageexternalhost accountingstoragehost
    accountingstorageloc accountingstorageparameters accountingstoragepass accountingstorageport
    accountingstoragetres accountingstoragetype accountingstorageuser accountingstoreflags
    accountingstorejobcomment acctgatherenergytype acctgatherfilesystemtype acctgatherinfinibandtype
    acctgatherinterconnecttype acctgathernodefreq acctgatherprofiletype allowspecresourcesusage authaltparameters
    authalttypes authinfo authtype backupaddr backupcontroller batchstarttimeout bcastexclude bcastparameters
    burstbufferparameters burstbuffertype certgenparameters certgentype certmgrparameters certmgrtype
    clifilterparameters clifilterplugins clustername communicationparameters completewait controladdr
    controlmachine corespecplugin cpufreqdef cpufreqgovernors credtype cryptotype dataparserparameters
    debugflags defcpupergpu defmempercpu defmempergpu defmempernode dependencyparameters disablerootjobs
    downnodes eiotimeout enforcepartlimits epilog epilogmsgtime epilogslurmctld epilogtimeout extsensorsfreq
    extsensorstype fairsharedampeningfactor fastschedule federationparameters firstjobid frontendname
    getenvtimeout gpufreqdef grestypes groupupdateforce groupupdatetime hashplugin healthcheckinterval
    healthchecknodestate healthcheckprogram httpparsertype inactivelimit interactivestepoptions
    jobacctgatherfrequency jobacctgatherparams jobacctgathertype jobcomphost jobcomploc jobcompparams
    jobcomppass jobcomppassscript jobcompport jobcomptype jobcompuser jobcontainertype jobcredentialprivatekey
    jobcredentialpubliccertificate jobfileappend jobrequeue jobsubmitplugins keepalivetime killonbadexit
    killwait launchparameters launchtype licenses logtimeformat maildomain mailprog maxarraysize maxbatchrequeue
    maxdbdmsgs maxjobcount maxjobid maxmempercpu maxmempernode maxnodecount maxstepcount maxtaskspernode
    mcsparameters mcsplugin messagetimeout metricstype minjobage mpidefault mpiparams namespacetype
    nodefeaturesplugins nodename nodeset overtimelimit partitionname plugindir plugstackconfig powerparameters
    powerplugin preemptexempttime preemptmode preemptparameters preempttype prepparameters prepplugins
    prioritycalcperiod prioritydecayhalflife priorityfavorsmall priorityflags prioritymaxage priorityparameters
    prioritysitefactorparameters prioritysitefactorplugin prioritytype priorityusageresetperiod priorityweightage
    priorityweightassoc priorityweightfairshare priorityweightjobsize priorityweightpartition priorityweightqos
    priorityweighttres privatedata proctracktype prolog prologepilogtimeout prologflags prologslurmctld
    prologtimeout propagateprioprocess propagateresourcelimits propagateresourcelimitsexcept rebootprogram
    reconfigflags requeueexit requeueexithold resumefailprogram resumeprogram resumerate resumetimeout resvepilog
    resvoverrun resvprolog returntoservice routeplugin sallocdefaultcommand sbcastparameters schedulerauth
    schedulerparameters schedulertimeslice schedulertype scronparameters selecttype selecttypeparameters
    slurmctldaddr slurmctlddebug slurmctldhost slurmctldlogfile slurmctldparameters slurmctldpidfile
    slurmctldplugstack slurmctldport slurmctldprimaryoffprog slurmctldprimaryonprog slurmctldsyslogdebug
    slurmctldtimeout slurmddebug slurmdlogfile slurmdparameters slurmdpidfile slurmdport slurmdspooldir
    slurmdsyslogdebug slurmdtimeout slurmduser slurmschedlogfile slurmschedloglevel slurmuser srunepilog
    srunportrange srunprolog statesavelocation suspendexcnodes suspendexcparts suspendexcstates suspendprogram
    suspendrate suspendtime suspendtimeout switchparameters switchtype taskepilog taskplugin taskpluginparam
    taskprolog tcptimeout tlsparameters tlstype tmpfs topologyparam topologyplugin trackwckey treewidth
    unkillablestepprogram unkillablesteptimeout urlparsertype usepam vsizefactor waittime x11parameters
"""

ALL = frozenset(_ALL.split())
"""In lower case."""
