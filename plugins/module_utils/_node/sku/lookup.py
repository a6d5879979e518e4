# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Find a VM size: in the table, or as an inventory describes it by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .names import UnknownVmSize, canonical_size, nearest_sizes
from .table import SIZES
from .types import VmSize

# The whole numbers that Slurm needs; types of more parts are described with the rest of the table's facts.
_DESCRIBABLE = ("vcpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mib")


def find_size(name: str, described: Mapping[str, Mapping[str, Any]] | None = None) -> VmSize:
    """Return the facts of VM size ``name``.

    :param name: a size in any spelling.
    :param described: sizes described by hand, by name: each a mapping of ``VmSize`` fields. A description wins over
        the table, as a whole: fields that it leaves out are unknown, not the table's.
    :raises UnknownVmSize: the size is in neither, or a description is malformed; the message says what to do.
    """
    wanted = canonical_size(name)
    by_hand = {canonical_size(key): value for key, value in (described or {}).items()}
    for key, description in by_hand.items():
        # A size that is not in the table has no spelling but the description's.
        if key.lower() == wanted.lower():
            return _from_description(key, description)
    if wanted in SIZES:
        return SIZES[wanted]
    known = sorted(set(SIZES) | set(by_hand))
    raise UnknownVmSize(
        f"VM size {name!r} is not known; the nearest known sizes are {', '.join(nearest_sizes(name, known) or known)}. "
        f"Describe it in hpcai_vm_sizes (keys: {', '.join(_DESCRIBABLE)})."
    )


def _from_description(name: str, description: Mapping[str, Any]) -> VmSize:
    if not isinstance(description, Mapping):
        raise UnknownVmSize(f"hpcai_vm_sizes[{name!r}] must be a mapping with keys of {', '.join(_DESCRIBABLE)}.")
    unknown = sorted(str(key) for key in description if key not in _DESCRIBABLE)
    if unknown:
        raise UnknownVmSize(
            f"hpcai_vm_sizes[{name!r}] has unknown keys {', '.join(unknown)}; known are {', '.join(_DESCRIBABLE)}."
        )
    values: dict[str, int] = {}
    for key, value in description.items():
        if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
            raise UnknownVmSize(f"hpcai_vm_sizes[{name!r}].{key} must be a whole number above 0, not {value!r}.")
        values[key] = int(value)
    return replace(VmSize(name), **values, sources=dict.fromkeys(values, "hand"))  # type: ignore[arg-type]
