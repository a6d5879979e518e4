# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the VM size's facts are known, because without them half of the checks cannot judge."""

from __future__ import annotations

from ...machine.config import ConfigError
from ...machine.vm_size import size_facts
from ...sku.lookup import UnknownVmSize
from ..check import BOOT, DEEP, EPILOG, PERIODIC, PROLOG, UNKNOWN, Answer, Check, Context, Finding, Reading

_CURE = "Describe the size in hpcai_vm_sizes and run site.yml, or set vm_size in /etc/hpcai/node.json"


def measure(context: Context) -> Answer:
    """Return the VM size that the checks use."""
    size = context.size
    if size is None:
        return Answer(findings=(Finding(UNKNOWN, _why(context), hint=_CURE),))
    return Answer(good=f"it is a {size.name}", readings=(Reading("vm_size", size.name),))


def _why(context: Context) -> str:
    try:
        size, _name = size_facts(context.root, remembered_first=True)
        return f"the VM size was not known at first, but now it is {size.name}: run this again"
    except (ConfigError, UnknownVmSize) as error:
        return str(error)


VM_SIZE = Check(
    name="vm_size",
    title="The facts of this VM size are known",
    explain="The hardware expected of a machine follows from its VM size: from the table of sizes, or from its "
    "description in the inventory. There is no limit. The verdict for an unknown size is unknown, so that a run on "
    "such a machine never looks complete.",
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT, DEEP),
    measure=measure,
    # It may have to query the metadata service.
    limit_s=3.0,
)
