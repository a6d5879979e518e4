# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: the variables that the role slurm needs and does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.required import missing


def slurm_missing(
    hosts: Iterable[Mapping[str, Any]],
    targets: Iterable[Mapping[str, Any]],
    controller: str,
    vm_sizes: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[str]:
    """Return a line for each variable that lacks a value, or has one that cannot be used."""
    return missing(hosts, targets, controller, vm_sizes or {})


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"slurm_missing": slurm_missing}
