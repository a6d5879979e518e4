# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The units besides the boot steps: what Slurm calls for each job, and units that watch, report and serve users."""

from __future__ import annotations

from ..nccl.conf import BLOCK
from .layout import MARK

LIBEXEC = "/usr/libexec/hpcai"
HOOK_KINDS = ("prolog", "epilog", "health")
HOOK_FOLDERS = (LIBEXEC, *(f"/etc/hpcai/{kind}.d" for kind in HOOK_KINDS))
HOOK_REPORT_PATH = "hpcai-hook-report.path"
HOOK_REPORT = "hpcai-hook-report.service"

# slurmd sets PATH to nothing, or to its own. Python starts only if there is a script to run, or if a report of an
# earlier failure exists that this run must update, because most nodes call this often.
_HOOK_TEXT = """\
#!/bin/sh
{mark}
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ ! -e /run/hpcai/job/{kind}.json ]; then
  set -- /etc/hpcai/{kind}.d/*
  [ -e "$1" ] || [ -h "$1" ] || exit 0
fi
exec /usr/bin/hpcnode job run {kind}
"""

HOOKS = {f"{LIBEXEC}/{kind}": _HOOK_TEXT.format(mark=MARK, kind=kind) for kind in HOOK_KINDS}
"""Texts by path."""


# The units that watch /etc/nccl.conf after the boot: the service of Azure's HPC images may rewrite it at any time.
#
# systemd does not watch the file while the started service runs, so the service's own writes start nothing, but writes
# of others in that time are missed. So there is a pause before, until a script that first empties the file has also
# written it, and a check afterwards whether the block is still there. A run that finds everything in place writes
# nothing. If another program restores the file each time, the start limit ends the loop.

NCCL_PATH = "hpcai-nccl.path"
NCCL_AGAIN = "hpcai-nccl-again.service"


# When NVIDIA's driver is loaded again after the boot, its clocks are reset, and modules that depend on it are missing.
#
# A udev rule starts a unit when the module appears, as systemd's own rules do for fuse and configfs. This also happens
# during the boot; then the unit waits until the boot phase is over, and finds nothing left to do.

DRIVER_LOADED = "hpcai-driver-loaded.service"
UDEV_FOLDER = "/usr/lib/udev/rules.d"
_GPU_RULE = f"{UDEV_FOLDER}/90-hpcai-gpu.rules"

UDEV_RULES = {
    _GPU_RULE: f"""\
{MARK}
# "add" comes once for each load of the module, and again if somebody triggers it for all loaded modules.
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{DRIVER_LOADED}"
""",
}
"""Texts by path."""


# The units that report the health checks' results to slurmctld, and answer a prolog that waits for the arbiter.

HEALTH_REPORT_PATH = "hpcai-health-report.path"
HEALTH_REPORT = "hpcai-health-report.service"


# The service that passes this machine's scheduled events on to its users, on compute nodes.

EVENTS = "hpcai-events.service"


# The service that gives users short-lived access to Blob storage and registries, started by a request.

GRANTS_SOCKET = "hpcai-grants.socket"
GRANTS = "hpcai-grants.service"


# The unit that collects diagnostics before a repair destroys them. 'hpcnode health report' starts it.

DIAG = "hpcai-diag.service"


UNITS = {
    HOOK_REPORT_PATH: f"""\
{MARK}
[Unit]
Description=Watch for failed prologs and epilogs

[Path]
PathExistsGlob=/run/hpcai/job/report/*.json
Unit={HOOK_REPORT}

[Install]
# Not only at boot: on a node that is set up while it runs, slurmd starts this unit.
WantedBy=slurmd.service
""",
    HOOK_REPORT: f"""\
{MARK}
[Unit]
Description=Report in Slurm why a prolog or an epilog failed
After=network-online.target munge.service slurmd.service

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode job report
TimeoutStartSec=540
""",
    NCCL_PATH: f"""\
{MARK}
[Unit]
Description=Watch /etc/nccl.conf for changes
# By default this unit would start before basic.target, and the nccl step only after it.
DefaultDependencies=no
After=hpcai-nccl.service
Conflicts=shutdown.target
Before=shutdown.target

[Path]
PathChanged=/etc/nccl.conf
Unit={NCCL_AGAIN}

[Install]
WantedBy=hpcai-boot.target
""",
    NCCL_AGAIN: f"""\
{MARK}
[Unit]
Description=Write NCCL's topology file and variables again after a change of /etc/nccl.conf
After=hpcai-nccl.service sku-customizations.service
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=oneshot
ExecStartPre=/bin/sleep 3
ExecStart=/usr/bin/hpcnode boot run nccl
ExecStartPost=/bin/sh -c 'sleep 2; grep -qs "{BLOCK}" /etc/nccl.conf || exec /usr/bin/hpcnode boot run nccl'
TimeoutStartSec=95
""",
    DRIVER_LOADED: f"""\
{MARK}
[Unit]
Description=Set the clocks of this node's GPUs again after their driver was loaded
# During the boot, the boot steps do this in order.
After=hpcai-boot.target

[Service]
Type=oneshot
# The step gpu waits until the module is ready, and loads the modules that belong to it.
ExecStart=/usr/bin/hpcnode boot run gpu clocks
TimeoutStartSec=390
""",
    HEALTH_REPORT_PATH: f"""\
{MARK}
[Unit]
Description=Watch for requests for a report of the health checks

[Path]
# Periodic and deep runs, and prologs and epilogs that wait for an answer. The service removes the files.
PathExistsGlob=/run/hpcai/health/asked/*.json
Unit={HEALTH_REPORT}

[Install]
# Not only at boot: on a node that is set up while it runs, slurmd starts this unit.
WantedBy=slurmd.service
""",
    HEALTH_REPORT: f"""\
{MARK}
[Unit]
Description=Report the results of the health checks to slurmctld
After=network-online.target munge.service slurmd.service
# A prolog may request a report right after another one.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode health report
TimeoutStartSec=120
""",
    DIAG: f"""\
{MARK}
[Unit]
Description=Collect diagnostics of this node before it is repaired
After=network-online.target
# A check that fails again and again must not fill the disk.
StartLimitIntervalSec=3600
StartLimitBurst=4

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode diag capture
Nice=19
IOSchedulingClass=idle
MemoryMax=1G
TimeoutStartSec=600
""",
    EVENTS: f"""\
{MARK}
[Unit]
Description=Pass this machine's scheduled events on to its users
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/hpcnode events serve
Restart=always
RestartSec=5
TimeoutStopSec=10

[Install]
WantedBy=slurmd.service
""",
    GRANTS_SOCKET: f"""\
{MARK}
[Unit]
Description=Requests of users for Blob storage and registries

[Socket]
ListenStream=/run/hpcai/grants.sock
# Everybody may send a request. The socket shows who sends it, and most users get nothing.
SocketMode=0666
DirectoryMode=0755
Backlog=1024
RemoveOnStop=yes

[Install]
# At boot, and on a node that is set up while it runs.
WantedBy=sockets.target
""",
    GRANTS: f"""\
{MARK}
[Unit]
Description=Short-lived access of users to Blob storage and registries
After=network-online.target nss-user-lookup.target
# It stops when it is idle for a while, and may start as often as requests arrive.
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/hpcnode grants serve
NoNewPrivileges=yes
CapabilityBoundingSet=
UMask=0077
# A core dump would contain keys.
LimitCORE=0
MemoryMax=512M
TasksMax=512
TimeoutStartSec=30
TimeoutStopSec=15
""",
}
"""Texts by name."""
