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
    explain=(
        "The VM size determines which hardware is expected of a machine. The facts of a size come from the "
        "collection's table of VM sizes, or from a description in the inventory (hpcai_vm_sizes). If the size of this "
        "machine is not known, the verdict is unknown, so the run cannot pass."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT, DEEP),
    measure=measure,
    # It may have to query the metadata service.
    limit_s=3.0,
)
