# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: a list of CPUs as a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet, CpuSetError


def cpu_mask(cpus: str | int) -> str:
    """Return the hexadecimal mask of a Linux list of CPUs."""
    # A list of one CPU is a number after templating.
    if not isinstance(cpus, (str, int)) or isinstance(cpus, bool):
        raise AnsibleFilterError(f"cpu_mask takes a list of CPUs such as 0-3,8, not {cpus!r}.")
    try:
        found = CpuSet.parse_list(str(cpus))
    except CpuSetError as error:
        raise AnsibleFilterError(str(error)) from error
    if not found:
        raise AnsibleFilterError("cpu_mask takes a list of CPUs such as 0-3,8; this one is empty.")
    return found.as_mask()


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"cpu_mask": cpu_mask}
