# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which VM size the checks go by: without waiting for the metadata service where its answer is written down."""

from __future__ import annotations

from ..machine.config import read_config
from ..machine.root import Root
from ..machine.vm_size import is_same_machine, remembered_instance, size_facts
from ..sku.types import VmSize


def size_of(root: Root) -> VmSize:
    """Return the facts of the machine's VM size.

    :raises ConfigError: nobody says which size it has, or the settings cannot be used.
    :raises UnknownVmSize: its size is neither in the table nor described.
    """
    if not (read_config(root, "node") or {}).get("vm_size"):
        known = remembered_instance(root)
        if isinstance(known.get("vm_size"), str) and is_same_machine(root, known):
            return size_facts(root, given=str(known["vm_size"]))[0]
    return size_facts(root)[0]
