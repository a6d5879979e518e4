# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Find a VM size: in the table, or as an inventory describes it by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .describe import from_description
from .forms import Malformed
from .names import UnknownVmSize, canonical_size, nearest_sizes
from .table import SIZES
from .types import VmSize


def find_size(name: str, described: Mapping[str, Mapping[str, Any]] | None = None) -> VmSize:
    """Return the facts of VM size ``name``.

    :param name: a size in any spelling.
    :param described: sizes described by hand, by name: each a mapping of ``VmSize`` fields. A description wins over
        the table, as a whole: fields that it leaves out are unknown, not the table's.
    :raises UnknownVmSize: the size is in neither, or a description is malformed; the message says what to do.
    """
    by_hand = _descriptions(described)
    wanted = canonical_size(name)
    for key, description in by_hand.items():
        # A size that is not in the table has no spelling but the description's.
        if key.lower() == wanted.lower():
            return from_description(key, description)
    if wanted in SIZES:
        return SIZES[wanted]
    known = sorted(set(SIZES) | set(by_hand))
    raise UnknownVmSize(
        f"VM size {name!r} is not known; the nearest known sizes are {', '.join(nearest_sizes(name, known) or known)}. "
        "Describe it in hpcai_vm_sizes, at least by vcpus and memory_mib (the guide of VM sizes has all keys)."
    )


def all_sizes(described: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, VmSize]:
    """Return all known sizes by name, in the table's order, then those described by hand.

    :raises UnknownVmSize: a description is malformed.
    """
    by_hand = {key: from_description(key, value) for key, value in _descriptions(described).items()}
    return {**SIZES, **by_hand}


def _descriptions(described: Any) -> dict[str, Any]:
    if not isinstance(described or {}, Mapping):
        raise Malformed(f"hpcai_vm_sizes must be a mapping of sizes by name, not {described!r}.")
    return {canonical_size(str(key)): value for key, value in (described or {}).items()}
