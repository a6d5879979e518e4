# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters: problems of an inventory and of the roles in it, and a report of its scale sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._guard import inventory as guard


def inventory_problems(
    inventory: Mapping[str, Any] | None,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, Any]],
    sources: Iterable[str],
    controllers: Iterable[Any] | str = (),
) -> list[str]:
    """Return the reasons not to run a playbook on this inventory."""
    return guard.problems(inventory or None, groups, hosts, sources, _listed(controllers))


def role_problems(
    inventory: Mapping[str, Any] | None,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, Any]],
    controllers: Iterable[Any] | str = (),
) -> list[str]:
    """Return the reasons not to trust the roles of hosts in this inventory."""
    return guard.role_problems(inventory or None, groups, list(hosts), _listed(controllers))


def inventory_report(inventory: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each scale set."""
    return guard.report(inventory or None)


def _listed(controllers: Iterable[Any] | str) -> list[str]:
    # On the command line, a list may be given as text with commas.
    named = controllers.split(",") if isinstance(controllers, str) else controllers
    return [str(name).strip() for name in named]


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {
            "inventory_problems": inventory_problems,
            "inventory_report": inventory_report,
            "role_problems": role_problems,
        }
