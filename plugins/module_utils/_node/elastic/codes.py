# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What Azure's error codes of an order mean, and how long a set that failed stays closed."""

from __future__ import annotations

from dataclasses import dataclass

CAPACITY, QUOTA, RIGHTS, POLICY, OTHER = "capacity", "quota", "rights", "policy", "other"

NEVER_JOINED, LOST, PARTIAL, TIMEOUT, BUDGET = "NeverJoined", "InstanceLost", "PartialOrder", "OrderTimeout", "Budget"
"""Codes of our own."""

# Azure documents these as lack of capacity: another size, zone or time can help.
_CAPACITY = (
    "allocationfailed",
    "zonalallocationfailed",
    "overconstrainedallocationrequest",
    "overconstrainedzonalallocationrequest",
    "skunotavailable",
)
_QUOTA = ("quotaexceeded", "subnetisfull")
# Azure also uses it while another operation changes the set.
_QUOTA_IF_NAMED = "operationnotallowed"
_RIGHTS = ("authorizationfailed", "linkedauthorizationfailed")
# A role helps against neither.
_POLICY = ("requestdisallowedbypolicy", "scopelocked")
FIRST_S, LONGEST_S = 600.0, 3600.0
"""A set without capacity is closed for ten minutes, then twice as long each time, up to an hour."""
RIGHTS_S, RIGHTS_PAUSE_S = 1800.0, 300.0
"""Azure needs up to 30 minutes until a new role acts on all of its servers. Sources: MicrosoftDocs/azure-docs,
role-based-access-control/troubleshooting; Azure/azure-cli issue 20727. A missing right counts as final after this time
without an order that Azure fulfilled. Until then, the set is closed for five minutes at a time."""
MOST_BOOTS = 5
"""After this many instances in a row that never joined, the set stops."""


@dataclass(frozen=True)
class Meaning:
    """What a code means.

    :ivar kind: CAPACITY, QUOTA, RIGHTS, POLICY or OTHER.
    :ivar action: what a person has to do; empty if waiting can help.
    """

    kind: str
    action: str = ""

    @property
    def waits(self) -> bool:
        """Whether waiting can help."""
        return not self.action


def meaning_of(code: str, words: str = "") -> Meaning:
    """Return what a code means, with Azure's message. An unknown one counts as transient."""
    lower = code.lower()
    if lower in _CAPACITY:
        return Meaning(CAPACITY)
    if lower in _QUOTA or (lower == _QUOTA_IF_NAMED and "quota" in words.lower()):
        return Meaning(QUOTA, "raise the quota or the subnet")
    if lower in _RIGHTS:
        return Meaning(RIGHTS, "give the controller's identity the roles of guide_elastic")
    if lower in _POLICY:
        return Meaning(POLICY, "ask the owner of the Azure policy or lock that Azure names")
    return Meaning(OTHER)


def closed_s(level: int) -> float:
    """Return how long a set is closed after it failed ``level`` times in a row."""
    return float(min(LONGEST_S, FIRST_S * 2 ** max(0, level - 1)))
