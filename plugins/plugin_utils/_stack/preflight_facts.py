# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure answered, as plain data, and the form of a preflight verdict.

Everything is wrapped in an ``Answer``, because each request can fail alone, and its checks are then unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import UNKNOWN, VERDICTS

from .plan import Plan

_T = TypeVar("_T")


@dataclass(frozen=True)
class Verdict:
    """The result of one check on one thing.

    :ivar check: the check's name, one of ``preflight.CHECKS``.
    :ivar about: what was checked, e.g. a scale set or a quota.
    :ivar verdict: one of ``machine.verdict.VERDICTS``.
    :ivar summary: one line: what was found.
    :ivar value: what was measured; empty if nothing was.
    :ivar limit: what it was compared with; empty if there is no limit.
    :ivar source: the request or file that the answer is from.
    :ivar action: what to do: a command, or the text to send to whoever can do it; empty if there is nothing to do.
    """

    check: str
    about: str
    verdict: str
    summary: str
    value: str = ""
    limit: str = ""
    source: str = ""
    action: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.verdict!r} is not a verdict.")

    def as_dict(self) -> dict[str, str]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Answer(Generic[_T]):
    """What Azure answered to one question.

    :ivar value: the answer; None if what was asked for does not exist, or if there is a problem.
    :ivar problem: why there is no answer: one line that also says what to do. Empty if there is one.
    """

    value: _T | None = None
    problem: str = ""

    def unknown(self, check: str, about: str, source: str, action: str = "Correct this, and run it again.") -> Verdict:
        """Return the verdict of a check whose question was not answered."""
        return Verdict(check, about, UNKNOWN, self.problem, source=source, action=action)


@dataclass(frozen=True)
class Usage:
    """A row of the quota of a region.

    :ivar name: e.g. ``cores``, ``standardNDASv4_A100Family``, as Azure spells it.
    :ivar used: how much is used; None if Azure does not say it as a number.
    :ivar limit: the quota; None if Azure does not say it as a number.
    """

    name: str
    used: float | None
    limit: float | None


def number_of(value: Any) -> float | None:
    """Return a number that Azure sent as a number or as text; None if it is none, or negative ("no limit known")."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < float("inf") else None


def folded(name: str | None) -> str:
    """Return a quota's name for comparisons: usages and sizes spell families with other spaces and case."""
    return "".join(str(name or "").lower().split())


@dataclass(frozen=True)
class Restriction:
    """Why a size is not sold, or not in some zones.

    :ivar kind: ``Location`` or ``Zone``.
    :ivar reason: Azure's code, e.g. ``NotAvailableForSubscription``, ``QuotaId``.
    :ivar zones: for ``Zone``, the zones.
    """

    kind: str
    reason: str
    zones: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sku:
    """A VM size as this region offers it to this subscription.

    :ivar name: as Azure spells it.
    :ivar family: name of its quota.
    :ivar zones: the zones that have it; empty if the region has no zones.
    :ivar capabilities: Azure's facts of the size, as text, e.g. ``vCPUs``.
    """

    name: str
    family: str
    zones: tuple[str, ...] = ()
    capabilities: Mapping[str, str] = field(default_factory=dict)
    restrictions: tuple[Restriction, ...] = ()


@dataclass(frozen=True)
class Image:
    """An image that exists.

    :ivar generation: ``V1`` or ``V2``; empty if Azure does not say.
    :ivar architecture: ``x64`` or ``Arm64``; empty if Azure does not say.
    :ivar plan: ``publisher:product:name`` of its marketplace plan; empty if it has none.
    :ivar regions: the regions with a copy, in lower case without spaces; None if it is the same everywhere.
    """

    generation: str = ""
    architecture: str = ""
    plan: str = ""
    regions: frozenset[str] | None = None


@dataclass(frozen=True)
class Permission:
    """What one role of the identity permits.

    :ivar actions: permitted actions, with wildcards.
    :ivar not_actions: those that are excluded from them.
    :ivar condition: the role assignment's condition; empty if there is none.
    """

    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    condition: str = ""


@dataclass(frozen=True)
class Lock:
    """A management lock.

    :ivar level: ``ReadOnly`` or ``CanNotDelete``.
    :ivar scope: resource id of what is locked.
    """

    name: str
    level: str
    scope: str


@dataclass(frozen=True)
class SubnetUse:
    """How many addresses of an existing subnet are used; None if Azure does not say.

    :ivar limit: how many addresses machines can have: without the five that Azure reserves.
    """

    used: float | None
    limit: float | None


@dataclass(frozen=True)
class NameUse:
    """Who has the name of a vault or storage account.

    :ivar ours: a resource of this name is in the stack's resource group.
    :ivar deleted: it is soft-deleted: until when its name is blocked, as Azure says it; empty if it is not.
    :ivar reason: Azure's code why it cannot be used, e.g. ``AlreadyExists``; empty if it can be.
    """

    ours: bool = False
    deleted: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Refusal:
    """An error of Azure's validation of the deployment.

    :ivar code: e.g. ``RequestDisallowedByPolicy``.
    :ivar message: Azure's words.
    :ivar target: which resource; empty if Azure does not say.
    :ivar policies: names of the policy assignments that deny it.
    """

    code: str
    message: str
    target: str = ""
    policies: tuple[str, ...] = ()


_NOT_ASKED: Answer[Any] = Answer(problem="it was not asked, because the subscription cannot be read")


@dataclass(frozen=True)
class Facts:
    """All answers.

    :ivar subscription: the subscription's state, e.g. ``Enabled``; None if it does not exist for this identity.
    :ivar plan: what a run would change.
    :ivar existing: how many machines of each set or machine exist, by lower-case name.
    :ivar images: by the image's name in ``Machines.image``; None for one that does not exist.
    :ivar terms: whether the terms of a plan are accepted, by the plan in ``Machines.plan``.
    :ivar permissions: of the identity, on the resource group.
    :ivar permissions_elsewhere: of the identity, by the ids of ``Needs.elsewhere``.
    :ivar assigned: which of ``Needs.assignments`` exist; asked only if the identity cannot write one of them.
    :ivar providers: their registration states, by name.
    :ivar subnets: by the subnet's id in lower case; without those that do not exist.
    :ivar names: who has ``Needs.names``.
    :ivar refusals: errors of the validation; an empty list if the deployment is valid.
    :ivar requests: number of requests that were sent, including retries.
    """

    subscription: Answer[str]
    usages: Answer[list[Usage]] = _NOT_ASKED
    skus: Answer[list[Sku]] = _NOT_ASKED
    plan: Answer[Plan] = _NOT_ASKED
    existing: Answer[dict[str, int]] = _NOT_ASKED
    images: Mapping[str, Answer[Image]] = field(default_factory=dict)
    terms: Mapping[str, Answer[bool]] = field(default_factory=dict)
    permissions: Answer[list[Permission]] = _NOT_ASKED
    permissions_elsewhere: Mapping[str, Answer[list[Permission]]] = field(default_factory=dict)
    assigned: Answer[list[Any]] = field(default_factory=lambda: Answer([]))
    providers: Mapping[str, Answer[str]] = field(default_factory=dict)
    locks: Answer[list[Lock]] = _NOT_ASKED
    subnets: Answer[dict[str, SubnetUse]] = _NOT_ASKED
    names: Mapping[str, Answer[NameUse]] = field(default_factory=dict)
    refusals: Answer[list[Refusal]] = _NOT_ASKED
    requests: int = 0
