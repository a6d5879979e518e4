# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What NVIDIA's driver wrote into the kernel's log without giving it an XID."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, OBSERVE, PERIODIC, PROLOG, REBOOT, REPLACE, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for
from ..nvidia_sizes import with_nvidia_gpus

_BUSID = r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
_REPLACE = "Restart the VM from Azure; redeploy or replace the instance if it stays so"
_RESTART = "Drain the node and restart the machine; 'journalctl -k -b -g NVRM' tells more"

SIGNS = (
    Sign(
        "off_the_bus",
        re.compile(rf"NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?{_BUSID}:? .*fallen off the bus"),
        FAIL,
        "GPU {device} has fallen off the bus",
        _REPLACE,
        REPLACE,
        "NHC2013",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src: osinit.c, osapi.c",
    ),
    Sign(
        "no_start",
        re.compile(rf"NVRM: GPU {_BUSID}: (?:RmInitAdapter|rm_init_adapter) failed"),
        FAIL,
        "GPU {device} could not be started by its driver",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osinit.c, kernel-open/nvidia/nv.c",
    ),
    Sign(
        "no_probe",
        re.compile(rf"nvidia(?:: probe of {_BUSID}| {_BUSID}: probe with driver nvidia) failed"),
        FAIL,
        "NVIDIA's driver did not take GPU {device} in hand",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="drivers/base/dd.c",
    ),
    Sign(
        "uvm",
        re.compile(r"nvidia-uvm: \w+\.c(?::\d+)? \w+\[pid:\d+\] ?(?:ERROR: )?Encountered a global fatal error"),
        FAIL,
        "the driver's unified memory (nvidia-uvm) has had a fatal error: no CUDA program starts",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="NVIDIA/open-gpu-kernel-modules: kernel-open/nvidia-uvm: uvm_global.c, uvm_common.h",
    ),
    Sign(
        "mismatch",
        re.compile(r"NVRM: API mismatch: "),
        WARN,
        "a program came with a library of another version than the loaded driver",
        "Where it is not a container of a user's: restart the machine, a package of the driver was exchanged",
        OBSERVE,
        "",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osapi.c",
    ),
)


def _measure(context: Context) -> Answer:
    return look_for(context, SIGNS, "gpu_driver_messages", "NVIDIA's driver has not complained since the last look")


CHECK = Check(
    name="gpu_driver_log",
    title="NVIDIA's driver in the kernel's log",
    explain=(
        "Looks in the kernel's log of this boot for what NVIDIA's driver says without an XID: a GPU that has fallen "
        "off the bus, that it could not start or take in hand, fatal errors of unified memory (nvidia-uvm), and a "
        "library of another version. It stays until the machine restarts."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure,
    applies=with_nvidia_gpus,
    action=REBOOT,
    fault="NHC2015",
)
