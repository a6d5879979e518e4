# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether it is known what the machine should have: without its VM size half of the checks have nothing to go by."""

from __future__ import annotations

from ...machine.config import ConfigError
from ...machine.vm_size import size_facts
from ...sku.lookup import UnknownVmSize
from ..check import BOOT, DEEP, EPILOG, PERIODIC, PROLOG, UNKNOWN, Answer, Check, Context, Finding, Reading

_CURE = "Describe the size in hpcai_vm_sizes and run site.yml, or set vm_size in /etc/hpcai/node.json"


def measure(context: Context) -> Answer:
    """Say which size the checks go by."""
    size = context.size
    if size is None:
        return Answer(findings=(Finding(UNKNOWN, _why(context), hint=_CURE),))
    return Answer(good=f"it is a {size.name}", readings=(Reading("vm_size", size.name),))


def _why(context: Context) -> str:
    try:
        size, _name = size_facts(context.root, remembered_first=True)
        return f"the VM size was not known, and now it is {size.name}: run this again"
    except (ConfigError, UnknownVmSize) as error:
        return str(error)


VM_SIZE = Check(
    name="vm_size",
    title="The facts of this VM size are known",
    explain="What a machine should have is told by its VM size: by the table of sizes, or by its description in the "
    "inventory. There is no limit. A size that nobody knows is unknown, so that a run on such a machine never ends as "
    "if all had been looked at.",
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT, DEEP),
    measure=measure,
    # It may have to ask the metadata service.
    limit_s=3.0,
)
