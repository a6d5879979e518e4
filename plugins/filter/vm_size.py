# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters: the facts of a VM size, and whether a machine has GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import (
    MalformedVmSize,
    UnknownVmSize,
    facts_of,
    find_size,
)


def vm_size(
    name: str, vm_sizes: Mapping[str, Mapping[str, Any]] | None = None, unknown: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts of the VM size of this name.

    :param unknown: what to return for a size that is neither in the table nor in ``vm_sizes``. By default, this is an
        error. A malformed description always is.
    """
    if not isinstance(name, str):
        raise AnsibleFilterError(f"vm_size takes the name of a VM size, not {name!r}.")
    try:
        return facts_of(find_size(name, vm_sizes))
    except UnknownVmSize as error:
        if unknown is not None and not isinstance(error, MalformedVmSize):
            return unknown
        raise AnsibleFilterError(str(error)) from error


def has_gpus(name: str | None, vm_sizes: Mapping[str, Mapping[str, Any]] | None = None) -> bool:
    """Return whether a machine of this VM size has GPUs: true without a name, false for a size that is not known."""
    return name is None or bool(vm_size(name, vm_sizes, unknown={}).get("gpu_count"))


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"has_gpus": has_gpus, "vm_size": vm_size}
