# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hosts are called: the option `hostnames`. Two instances never become one host."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InventoryError
from .instance_facts import InstanceFacts

COMPUTER_NAME = "computer_name"

# Facts that can name a host; the name of the resource comes last, as no instance is without it.
CHOICES = (COMPUTER_NAME, "name", "vm_id", "private_ipv4", "public_ipv4")


def check_choices(choices: Sequence[str]) -> None:
    """Refuse a preference that no instance could have.

    :raises InventoryError: it names the ones that there are.
    """
    unknown = [choice for choice in choices if choice not in CHOICES]
    if unknown or not choices:
        raise InventoryError(
            f"hostnames: {', '.join(map(repr, unknown)) or 'nothing'} is not among {', '.join(CHOICES)}."
        )


def host_name(facts: InstanceFacts, choices: Sequence[str]) -> str:
    """Return the first name in order of preference that an instance has."""
    for choice in choices:
        value = facts.get(f"azure_{choice}")
        if value:
            return str(value)
    return facts["azure_name"]


def check_unique(named: Sequence[tuple[str, str]], elsewhere: dict[str, str]) -> None:
    """Refuse two instances with one name.

    :param named: name and resource id of each host of this source.
    :param elsewhere: the same of the hosts that other sources brought.
    :raises InventoryError: it names both.
    """
    seen = dict(elsewhere)
    for name, resource_id in named:
        other = seen.setdefault(name, resource_id)
        if other.lower() != resource_id.lower():
            raise InventoryError(
                f"two instances would be one host {name!r}: {other} and {resource_id}; leave one of them out (tags, "
                "scale_sets, query), or choose another name (hostnames: [name])."
            )
