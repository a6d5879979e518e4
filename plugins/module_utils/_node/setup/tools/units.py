# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The units that run the boot phase: one a step, in the order of the boot, and the target that wants them.

To add a step's unit, add its row to ``BOOT_UNITS`` in its place. This part of the core lies below boot/, so the rows
say again what the steps say; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .files import MARK

TARGET = "hpcai-boot.target"
MARGIN_S = 30
"""Seconds that systemd grants a step beyond its own limit: hpcnode ends it and records why, systemd only ends it."""


@dataclass(frozen=True)
class BootUnit:
    """A step's unit.

    :ivar name: of the step; the unit is ``hpcai-<name>.service``.
    :ivar title: its description.
    :ivar limit_s: the step's limit in seconds.
    :ivar blocking: slurmd requires it.
    :ivar after: units that come first, besides those of the steps before it. One that is not there is no hindrance.
    :ivar before: units that come later, besides slurmd.
    :ivar wants: units that are started for it.
    :ivar more: further lines of its section [Unit].
    :ivar command: what it runs, if not ``hpcnode boot run <name>``.
    """

    name: str
    title: str
    limit_s: int
    blocking: bool
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    command: str = ""

    @property
    def unit(self) -> str:
        """Its name for systemd."""
        return f"hpcai-{self.name}.service"


# The persistence daemon and the fabric manager load and hold the driver; sku-customizations.service is of Azure's HPC
# images: it loads nvidia-peermem and writes /etc/nccl.conf anew at each boot.
_DRIVER = ("nvidia-persistenced.service", "nvidia-fabricmanager.service", "sku-customizations.service")

BOOT_UNITS = (
    BootUnit(
        "scratch",
        "Scratch file system on this node's local NVMe disks",
        270,
        blocking=True,
        after=("local-fs.target", "systemd-udev-trigger.service"),
        more=("ConditionPathExists=/etc/hpcai/scratch.json", "RequiresMountsFor=/var/lib/hpcai"),
        command="scratch up",
    ),
    BootUnit("clocks", "Clocks of this node's GPUs", 120, blocking=False, after=_DRIVER),
    BootUnit(
        "nccl",
        "NCCL's topology file and variables of this node's VM size",
        60,
        blocking=False,
        after=("sku-customizations.service",),
        more=("ConditionPathExists=/etc/hpcai/nccl.json",),
        command="nccl apply",
    ),
)

_TARGET_TEXT = f"""\
{MARK}
[Unit]
Description=This node is set up for HPC jobs (hpcai.azure)
# slurmd gets no jobs before everything here was done, or has failed.
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

[Install]
WantedBy={target}
{required}"""

_REQUIRED = """\
# A node on which this failed must not take jobs. 'systemctl start slurmd' runs it again.
RequiredBy=slurmd.service
"""


def _service(number: int, row: BootUnit) -> str:
    after = (*row.after, *(earlier.unit for earlier in BOOT_UNITS[:number]))
    lines = [
        *([f"Wants={' '.join(row.wants)}"] if row.wants else []),
        *([f"After={' '.join(after)}"] if after else []),
        f"Before={' '.join((*row.before, 'slurmd.service'))}",
        *row.more,
    ]
    return _SERVICE_TEXT.format(
        mark=MARK,
        title=row.title,
        unit="\n".join(lines),
        command=row.command or f"boot run {row.name}",
        timeout_s=row.limit_s + MARGIN_S,
        target=TARGET,
        required=_REQUIRED if row.blocking else "",
    )


UNITS = {TARGET: _TARGET_TEXT, **{row.unit: _service(number, row) for number, row in enumerate(BOOT_UNITS)}}
"""Text by name."""
ENABLED = {
    "multi-user.target.wants": (TARGET,),
    f"{TARGET}.wants": tuple(row.unit for row in BOOT_UNITS),
    "slurmd.service.requires": tuple(row.unit for row in BOOT_UNITS if row.blocking),
}
"""What 'systemctl enable' would link below /etc/systemd/system, by folder. An image at rest has no systemctl."""
