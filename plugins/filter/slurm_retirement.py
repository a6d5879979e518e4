# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: the nodes and instances that a list of names to retire stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import retirement


def slurm_retirement(
    hosts: Iterable[Mapping[str, Any]], wanted: Any, force: Any = False, called: str = "retire"
) -> retirement.Retirement:
    """Return which nodes leave, and which have left already."""
    try:
        # From the command line a boolean comes as a text.
        forced = str(force).strip().lower() in ("true", "yes", "1", "on")
        return retirement.plan(wanted, hosts, force=forced, called=called)
    except retirement.RetirementError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"slurm_retirement": slurm_retirement}
