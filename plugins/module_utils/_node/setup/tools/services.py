# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The services beside the boot's steps: what Slurm calls for each job, and units that watch, report and serve users."""

from __future__ import annotations

from ..nccl.conf import BLOCK
from .layout import MARK

LIBEXEC = "/usr/libexec/hpcai"
HOOK_KINDS = ("prolog", "epilog", "health")
HOOK_FOLDERS = (LIBEXEC, *(f"/etc/hpcai/{kind}.d" for kind in HOOK_KINDS))
HOOK_REPORT_PATH = "hpcai-hook-report.path"
HOOK_REPORT = "hpcai-hook-report.service"

# slurmd gives an empty PATH, or its own. Where there is nothing to run and no failure that this run could follow, no
# Python is started: most nodes call this often.
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
"""Text by path."""


# The units that watch /etc/nccl.conf after the boot: the service of Azure's HPC images may write it anew at any time.
#
# systemd does not watch while the started service runs, so what that writes itself starts nothing. What others write in
# that time goes unseen. So there is a pause before, until a script that first empties the file has written it too, and
# a look afterwards whether the block is still there. A run that finds everything in place writes nothing. Where
# somebody else puts the file back each time, the limit ends the quarrel.

NCCL_PATH = "hpcai-nccl.path"
NCCL_AGAIN = "hpcai-nccl-again.service"


# What happens when NVIDIA's driver is loaded again after the boot: it forgot the clocks, and lost its other parts.
#
# A rule of udev wants a unit when the module appears, as systemd's own rules do for fuse and configfs. During the boot
# that happens too; then the unit waits until the boot phase is over, and finds nothing left to do.

DRIVER_LOADED = "hpcai-driver-loaded.service"
UDEV_FOLDER = "/usr/lib/udev/rules.d"
_GPU_RULE = f"{UDEV_FOLDER}/90-hpcai-gpu.rules"

UDEV_RULES = {
    _GPU_RULE: f"""\
{MARK}
# "add" comes once for each load of the module, and again where somebody triggers it for all modules there are.
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{DRIVER_LOADED}"
""",
}
"""Text by path."""


# The units that tell slurmctld what the health checks found, and answer a prolog that waits for the arbiter.

HEALTH_REPORT_PATH = "hpcai-health-report.path"
HEALTH_REPORT = "hpcai-health-report.service"


# The service that passes this machine's scheduled events on to its users, on compute nodes.

EVENTS = "hpcai-events.service"


# The service that gives users short-lived access to Blob storage and registries: it starts when somebody asks.

GRANTS_SOCKET = "hpcai-grants.socket"
GRANTS = "hpcai-grants.service"


UNITS = {
    HOOK_REPORT_PATH: f"""\
{MARK}
[Unit]
Description=Watch for a prolog or an epilog that failed

[Path]
PathExistsGlob=/run/hpcai/job/report/*.json
Unit={HOOK_REPORT}

[Install]
# Not at boot alone: a node that is set up while it runs starts it with its slurmd.
WantedBy=slurmd.service
""",
    HOOK_REPORT: f"""\
{MARK}
[Unit]
Description=Say in Slurm why a prolog or an epilog failed
After=network-online.target munge.service slurmd.service

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode job report
TimeoutStartSec=540
""",
    NCCL_PATH: f"""\
{MARK}
[Unit]
Description=Watch over NCCL's variables
# By default it would come before basic.target, and the step after that.
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
Description=NCCL's topology file and variables, once more after somebody changed /etc/nccl.conf
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
Description=Clocks of this node's GPUs, once more after their driver was loaded
# In the boot the steps themselves do it, in their order.
After=hpcai-boot.target

[Service]
Type=oneshot
# The first step waits until the module is up, and loads those that belong to it.
ExecStart=/usr/bin/hpcnode boot run gpu clocks
TimeoutStartSec=390
""",
    HEALTH_REPORT_PATH: f"""\
{MARK}
[Unit]
Description=Watch for new results of the health checks

[Path]
# The other tiers' results go with the next periodic ones: with many short jobs, that would be often.
PathChanged=/run/hpcai/health/periodic.json
PathExistsGlob=/run/hpcai/health/asked/*.json
Unit={HEALTH_REPORT}

[Install]
# Not at boot alone: a node that is set up while it runs starts it with its slurmd.
WantedBy=slurmd.service
""",
    HEALTH_REPORT: f"""\
{MARK}
[Unit]
Description=Tell slurmctld what the health checks found
After=network-online.target munge.service slurmd.service
# One prolog may ask right after another.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode health report
TimeoutStartSec=120
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
# Everybody may ask. Who asks is known by the socket, and most get nothing.
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
# It ends when nobody asks for a while, and starts as often as somebody does.
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
"""Text by name."""
