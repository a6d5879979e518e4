# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The catalogue of a bundle.

It is an explicit tuple. Each item is read-only and harmless beside a running job: no item runs a benchmark, resets or
configures anything. What the catalogue must not contain: keys, tokens, SAS, user data, environments and command lines
of processes, batch scripts, and files of users.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..machine.hyperv import read_kvp
from ..machine.os_release import read_os_release
from ..machine.root import Root
from ..version import VERSION
from .item import ANY, CONTROLLER, JSON, NODE, RESULTS, SLURM, VARIABLES, Command, Facts, Item, Tool, command, files

_HOST_KEYS = (
    "PhysicalHostNameFullyQualified",
    "PhysicalHostName",
    "HostName",
    "VirtualMachineName",
    "VirtualMachineId",
)
"""The host's key-value pairs that are shown; others may contain what a deployment has passed."""
_OS_KEYS = ("ID", "VERSION_ID", "PRETTY_NAME", "ID_LIKE")


def _host(root: Root) -> dict[str, Any]:
    pairs = read_kvp(root)
    shown = {key: pairs[key] for key in _HOST_KEYS if key in pairs}
    return {"host": shown, "other_pairs": len(pairs) - len(shown)}


def _versions(root: Root) -> dict[str, Any]:
    found = read_os_release(root)
    return {
        "hpcnode": VERSION,
        "os": {key: found[key] for key in _OS_KEYS if key in found},
        "kernel": root.text("/proc/sys/kernel/osrelease") or "",
        "nvidia": (root.text("/proc/driver/nvidia/version") or "").splitlines(),
    }


def _journal(what: str, lines: int = 2000) -> Command:
    return command(f"journalctl --no-pager --quiet --output=short-iso --lines={lines} {what}")


_JOBS = "names of users and jobs, and what people wrote in reasons"
_ADDRESSES = "names and addresses of machines"
_LOGS = "names of users, jobs and machines, and messages of programs"
_DEB = "'slurm*' 'nvidia*' 'libnccl*' 'datacenter-gpu*' 'rdma*' 'mlnx*' 'beegfs*' 'munge*' 'enroot*' 'linux-image*'"
_UNITS = "'hpcai-*' 'slurm*' 'munge*' 'nvidia*' 'beegfs*' 'openibd*' 'chrony*' 'walinuxagent*' 'waagent*' 'azure-*'"
_SOS = "block,devices,hardware,infiniband,kernel,md,memory,networking,nvidia,nvme,pci,udev,xfs"
"""Plugins of sos. Those for cloud-init, Azure and Slurm would copy user data and passwords. Those for processes and
systemd would copy command lines and environments, that for file systems the options of mounts."""
_REASONS = "sinfo --list-reasons --Format=Reason:200,User:20,Timestamp:22,StateLong:20,NodeList:80"
_EVENTS = "sacctmgr --noheader --parsable2 show event start=now-14days format=NodeName,Start,End,State,Reason,User"
_RUNS = (
    "sacct --allusers --duplicates --allocations --noheader --parsable2 --starttime=now-1days"
    " --format=JobIDRaw,User,Partition,State,ExitCode,Submit,Start,End,NodeList"
)
_NODE_NAMES = r"\b(?:NodeName|NodeHostName|NodeAddr|SlurmctldHost(?:\[\d+\])?|DbdHost)\s*=\s*([^\s(]+)"

_MACHINE = (
    # What Azure's support asks first.
    Item("host", "Physical host and virtual machine", Facts(_host), _ADDRESSES),
    Item("instance", "Identity from the metadata service", files("/var/lib/hpcai/instance.json"), _ADDRESSES, JSON),
    Item("versions", "Versions of system, kernel, driver and hpcnode", Facts(_versions)),
    Item("packages_deb", "Packages", command(f"dpkg-query --show --showformat='${{Package}} ${{Version}}\\n' {_DEB}")),
    Item("packages_rpm", "Packages", command("rpm --query --all"), limit_s=20),
    Item(
        "health", "Results of the health checks", files("/run/hpcai/health/*.json"), _ADDRESSES, RESULTS, most_kib=2048
    ),
    Item("health_kept", "Latched findings", files("/var/lib/hpcai/health/*.json"), _ADDRESSES, RESULTS, most_kib=1024),
    Item("boot", "Records of the boot steps", files("/run/hpcai/boot/*.json", newest=40), filter=RESULTS),
    Item("job_failures", "Failures of prolog and epilog scripts", files("/run/hpcai/job/*.json"), _JOBS, RESULTS),
    Item("job_logs", "Output of prolog and epilog scripts", files("/var/log/hpcai/jobs/*", newest=30), _LOGS),
)
_HARDWARE = (
    Item("kernel_log", "Kernel log of this boot", command("dmesg --time-format=iso"), _LOGS, limit_s=15, most_kib=2048),
    Item("kernel_log_before", "Kernel log of the boot before", _journal("--dmesg --boot=-1"), _LOGS, limit_s=20),
    Item("cpu", "Processors", command("lscpu")),
    Item("numa", "NUMA nodes", command("numactl --hardware")),
    Item("memory", "Memory and load", files("/proc/meminfo /proc/loadavg /proc/pressure/memory /proc/pressure/io")),
    Item(
        "processes",
        # Their command lines may contain tokens. ps shows the uid instead of a name of more than 32 characters (P_G_SZ
        # in pwcache.h of procps).
        "Processes without their arguments, with the kernel function in which they wait",
        command("ps -eo pid,ppid,uid,user:32,stat,etimes,rss,wchan:30,comm --sort=stat"),
        "names of users",
        users=r"^\s*\d+\s+\d+\s+(?P<uid>\d{1,10})\s+(?P<name>\S+)",
    ),
    Item("pci", "PCI devices", command("lspci -nnvv"), limit_s=20, most_kib=1024),
    Item("modules", "Kernel modules", files("/proc/modules")),
    Item("gpu", "GPUs, as their driver shows them", command("nvidia-smi --query"), limit_s=60, most_kib=1024),
    Item("gpu_topology", "Connections between GPUs and adapters", command("nvidia-smi topo --matrix"), limit_s=30),
    Item("gpu_links", "NVLink", command("nvidia-smi nvlink --status"), limit_s=30),
    Item("fabric_manager", "Log of the fabric manager", files("/var/log/fabricmanager.log")),
    Item("infiniband", "InfiniBand ports", command("ibstat"), limit_s=20),
    Item("rdma", "RDMA links", command("rdma --details link show")),
    Item("network", "Network interfaces with counters", command("ip -statistics -details link"), _ADDRESSES),
    Item("addresses", "Addresses", command("ip -brief address"), _ADDRESSES),
    Item("routes", "Routes", command("ip route show table all"), _ADDRESSES),
    Item("disks", "Disks", command("lsblk --output=NAME,TYPE,SIZE,FSTYPE,MOUNTPOINT,MODEL,ROTA,STATE")),
    Item("raid", "RAID arrays", files("/proc/mdstat")),
    # These wait for network file systems that do not answer.
    Item("space", "Free space", command("df --human-readable --print-type"), _ADDRESSES, limit_s=5),
    Item("inodes", "Free inodes", command("df --inodes"), _ADDRESSES, limit_s=5),
    # Options of a mount may contain a password.
    Item("mounts", "Mounts", command("findmnt --list --output=TARGET,FSTYPE,SOURCE"), _ADDRESSES, limit_s=5),
)
_SERVICES = (
    Item("failed_units", "Failed units", command("systemctl --no-pager --failed --full"), limit_s=15),
    Item("units", "Units", command(f"systemctl --no-pager --all --full list-units {_UNITS}"), limit_s=15),
    Item("journal_hpcai", "Journal of the collection", _journal("--unit=hpcai-*"), _LOGS, limit_s=30, most_kib=1024),
    Item(
        "journal_slurm",
        "Journal of Slurm's daemons",
        _journal("--unit=slurm* --unit=munge*"),
        _LOGS,
        limit_s=30,
        most_kib=1024,
    ),
    Item(
        "journal_hardware",
        "Journal of hardware services and of Azure's agent",
        _journal("--unit=nvidia* --unit=openibd* --unit=chrony* --unit=walinuxagent* --unit=waagent*"),
        _LOGS,
        limit_s=30,
        most_kib=1024,
    ),
    Item("journal_errors", "Errors since the boot", _journal("--boot --priority=err", 1000), _LOGS, limit_s=30),
    Item("azure_agent", "Log of Azure's agent", files("/var/log/waagent.log"), _LOGS),
    Item("settings", "Settings of the collection", files("/etc/hpcai/*.json", newest=60), _ADDRESSES, JSON),
    Item("slurmd_options", "Options of slurmd", files("/etc/hpcai/slurmd.env"), _ADDRESSES, VARIABLES, NODE),
    Item("nccl", "Settings of NCCL", files("/etc/nccl.conf"), filter=VARIABLES),
    Item(
        "slurm_configuration",
        "Slurm's configuration",
        files("/etc/slurm/*.conf /run/slurm/conf/*.conf /var/spool/slurmd/conf-cache/*.conf"),
        _ADDRESSES,
        SLURM,
        most_kib=2048,
        hosts=_NODE_NAMES,
    ),
    Item("slurmd_log", "Log of slurmd", files("/var/log/slurm/slurmd.log"), _LOGS, on=NODE, most_kib=1024),
)
_ON_THE_CONTROLLER = (
    Item("slurmctld", "Whether slurmctld answers", command("scontrol ping"), _ADDRESSES, limit_s=15),
    Item("arbiter", "The arbiter's records", files("/run/hpcai/health/arbiter.json"), _ADDRESSES, RESULTS),
    Item(
        "nodes",
        "Nodes",
        command("scontrol --oneliner show nodes"),
        _ADDRESSES,
        limit_s=20,
        most_kib=2048,
        hosts=_NODE_NAMES,
    ),
    Item("reasons", "Drained nodes with their reasons", command(_REASONS), _JOBS, limit_s=20),
    Item("partitions", "Partitions", command("sinfo --all"), limit_s=20),
    Item(
        "jobs",
        # Both are free text.
        "Jobs without their names and comments",
        command("squeue --all '--format=%i|%u|%P|%T|%r|%D|%N|%V|%S|%l'"),
        _JOBS,
        limit_s=20,
        most_kib=1024,
        users=r"^[^|]+\|(?P<name>[^|]+)\|",
    ),
    Item("reservations", "Reservations", command("scontrol --oneliner show reservations"), _JOBS, limit_s=20),
    Item(
        "scheduler",
        "The scheduler's statistics",
        command("sdiag"),
        "names of users",
        limit_s=20,
        # Tables by message type have lines of the same form. A name of 16 or more characters has no blank behind it
        # (src/sdiag/sdiag.c of Slurm).
        users=r"^\t(?P<name>\S+?)\s*\(\s*(?P<uid>\d{1,10})\) count:",
        users_below="Remote Procedure Call statistics by user",
    ),
    Item(
        "configuration_loaded",
        "Configuration of slurmctld",
        command("scontrol show config"),
        _ADDRESSES,
        SLURM,
        hosts=_NODE_NAMES,
    ),
    Item(
        "events",
        "Events of nodes in the last 14 days",
        command(_EVENTS),
        _JOBS,
        limit_s=30,
        most_kib=1024,
        hosts=r"^([^|]+)\|",
    ),
    Item(
        "runs",
        "Runs of jobs in the last day",
        command(_RUNS),
        _JOBS,
        limit_s=30,
        most_kib=2048,
        users=r"^\d+\|(?P<name>[^|]+)\|",
    ),
    Item("slurmctld_log", "Log of slurmctld", files("/var/log/slurm/slurmctld.log"), _LOGS, most_kib=2048),
    Item("slurmdbd_log", "Log of slurmdbd", files("/var/log/slurm/slurmdbd.log"), _LOGS, most_kib=512),
)
_ON_REQUEST = (
    Item(
        "nvidia_bug_report",
        "NVIDIA's report for its support",
        Tool(("nvidia-bug-report.sh", "--safe-mode", "--output-file", "{folder}/report.log"), 200 << 20),
        "the kernel log, the configuration of graphics, and settings of NVIDIA's programs in home directories",
        limit_s=300,
        most_kib=8192,
        extra=True,
    ),
    Item(
        "sos",
        "Report of sos",
        Tool(("sos", "report", "--batch", "--quiet", "--tmp-dir", "{folder}", "--only-plugins", _SOS), 1 << 30),
        "names of users and machines, and messages of programs",
        limit_s=300,
        most_kib=16384,
        extra=True,
    ),
)


def _only_there(items: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(replace(item, on=CONTROLLER) for item in items)


CATALOG = (*_MACHINE, *_HARDWARE, *_SERVICES, *_only_there(_ON_THE_CONTROLLER), *_ON_REQUEST)
"""All items, in the order in which they are read: small and important ones first, because the total time is limited."""
EXTRA = tuple(item.name for item in CATALOG if item.extra)
"""The items that are only read on request."""
NAMES = tuple(item.name for item in CATALOG)


def select(on_controller: bool, extra: frozenset[str] = frozenset()) -> tuple[Item, ...]:
    """Return the items for a machine.

    :param extra: names of items that are only read on request.
    """
    wanted = (ANY, CONTROLLER) if on_controller else (ANY, NODE)
    return tuple(item for item in CATALOG if item.on in wanted and (not item.extra or item.name in extra))
