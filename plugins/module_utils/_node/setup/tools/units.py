# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The units that run the boot phase: one per step, in boot order, and the target that starts them.

To add a step's unit, add its row to ``BOOT_UNITS`` in its place. This package may not import boot/, so the rows repeat
what the steps say; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import services
from .layout import MARK

TARGET = "hpcai-boot.target"
REPORT = "hpcai-report.service"
MARGIN_S = 30
"""Seconds that systemd allows a step beyond the step's own timeout: hpcnode stops it and records why, systemd does not.
"""
STOP_S = 10
"""Seconds that the rest of a stopped step has to end, and again after SIGKILL. A process that hangs in a driver cannot
end at all, and the following steps must not wait long for it."""


@dataclass(frozen=True)
class BootUnit:
    """A step's unit.

    :ivar name: the step's name; the unit is ``hpcai-<name>.service``.
    :ivar title: its description.
    :ivar limit_s: the step's timeout in seconds.
    :ivar blocking: whether slurmd requires it.
    :ivar after: units that start first, besides those of earlier steps. A missing unit does not matter.
    :ivar before: units that start later, besides slurmd.
    :ivar wants: units that are started for it.
    :ivar more: further lines of its section [Unit].
    """

    name: str
    title: str
    limit_s: int
    blocking: bool
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Its name in systemd."""
        return f"hpcai-{self.name}.service"


# Services of Azure's HPC images and of NVIDIA's packages: they load the driver and keep it loaded, start NVSwitch and
# InfiniBand, load nvidia-peermem, and rewrite /etc/nccl.conf at each boot (sku-customizations.service). The last one
# renames the InfiniBand devices after network.target (components/install_azure_persistent_rdma_naming.sh of
# github.com/Azure/azhpc-images), and a step that runs meanwhile could read a device that disappears.
_GPU_SERVICES = (
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "openibd.service",
    "sku-customizations.service",
    "azure_persistent_rdma_naming.service",
)

BOOT_UNITS = (
    BootUnit(
        "instance",
        "Find out which machine this is, and which cluster it belongs to",
        80,
        blocking=True,
        after=("network-online.target",),
        wants=("network-online.target",),
        more=("RequiresMountsFor=/var/lib/hpcai",),
    ),
    BootUnit("key", "Fetch the cluster's munge key", 60, blocking=True, before=("munge.service",)),
    BootUnit(
        "access",
        "Allow users to log in while they have a job here",
        30,
        blocking=True,
        # These create the admin's account.
        after=("cloud-init.service", "cloud-init-network.service"),
    ),
    BootUnit("gpu", "Driver and number of this node's GPUs", 210, blocking=True, after=_GPU_SERVICES),
    BootUnit("fabric", "Fabric manager and InfiniBand of this node", 150, blocking=True, after=_GPU_SERVICES),
    BootUnit(
        "scratch",
        "Scratch file system on this node's local NVMe disks",
        300,
        blocking=True,
        # cloud-init mounts the temporary disk in its first service, which has another name since 24.3.
        after=("local-fs.target", "systemd-udev-trigger.service", "cloud-init.service", "cloud-init-network.service"),
        more=("RequiresMountsFor=/var/lib/hpcai",),
    ),
    BootUnit(
        "directories",
        "Directories on the scratch, or on its fallback",
        150,
        blocking=True,
        # Owners are stored by name, and a directory service may define them.
        after=("nss-user-lookup.target",),
    ),
    BootUnit("clocks", "Clocks of this node's GPUs", 120, blocking=False, after=_GPU_SERVICES),
    BootUnit("nccl", "NCCL's topology file and variables", 60, blocking=False, after=_GPU_SERVICES),
    BootUnit("containers", "Devices, folders and plugin for containers", 120, blocking=False, after=_GPU_SERVICES),
    BootUnit("health", "Health checks of this node before its first job", 120, blocking=True, after=_GPU_SERVICES),
)

_TARGET_TEXT = f"""\
{MARK}
[Unit]
Description=This node is set up for HPC jobs (hpcai.azure)
# slurmd starts after every step has succeeded or failed.
Before=slurmd.service

[Install]
WantedBy=multi-user.target
"""

_SERVICE_TEXT = """\
{mark}
[Unit]
Description={title}
{unit}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/hpcnode {command}
TimeoutStartSec={timeout_s}
TimeoutStopSec={stop_s}

[Install]
WantedBy={target}
{required}"""

# Not linked anywhere: a failed unit of a blocking step starts it.
_REPORT_TEXT = f"""\
{MARK}
[Unit]
Description=Report in Slurm why this node takes no jobs
After=network-online.target munge.service

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode boot report
# 2 if the reason could not be sent, for example before the node has a munge key. The failed step's own unit shows that
# the node takes no jobs. This unit must not stay failed after the step has passed.
SuccessExitStatus=2
TimeoutStartSec=60
"""

_REQUIRED = """\
# If this step fails, the node must not take jobs. 'systemctl start slurmd' runs it again.
RequiredBy=slurmd.service
"""


def _service(number: int, row: BootUnit) -> str:
    after = (*row.after, *(earlier.unit for earlier in BOOT_UNITS[:number]))
    lines = [
        *([f"Wants={' '.join(row.wants)}"] if row.wants else []),
        *([f"After={' '.join(after)}"] if after else []),
        f"Before={' '.join((*row.before, 'slurmd.service'))}",
        *([f"OnFailure={REPORT}"] if row.blocking else []),
        *row.more,
    ]
    return _SERVICE_TEXT.format(
        mark=MARK,
        title=row.title,
        unit="\n".join(lines),
        command=f"boot run {row.name}",
        timeout_s=row.limit_s + MARGIN_S,
        stop_s=STOP_S,
        target=TARGET,
        required=_REQUIRED if row.blocking else "",
    )


UNITS = {
    TARGET: _TARGET_TEXT,
    REPORT: _REPORT_TEXT,
    **{row.unit: _service(number, row) for number, row in enumerate(BOOT_UNITS)},
    **services.UNITS,
}
"""Texts by name."""
ENABLED = {
    "multi-user.target.wants": (TARGET,),
    f"{TARGET}.wants": (*(row.unit for row in BOOT_UNITS), services.NCCL_PATH),
    "slurmd.service.requires": tuple(row.unit for row in BOOT_UNITS if row.blocking),
    "slurmd.service.wants": (services.HOOK_REPORT_PATH, services.HEALTH_REPORT_PATH, services.EVENTS),
    "sockets.target.wants": (services.GRANTS_SOCKET,),
}
"""The links that 'systemctl enable' makes below /etc/systemd/system, by folder. It may not work in an image."""
