# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fault rules: which requests fail, how, how often, and from which request on."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

ACTIONS = ("status", "drop", "hang", "garbage", "slow", "repeat_next_link", "strip")
SERVICES = ("arm", "imds", "vault", "deployment")


class FaultError(Exception):
    """An invalid rule."""


@dataclass
class Fault:
    """One rule. The first rule that matches a request applies."""

    match: str
    """Regular expression on ``METHOD path?query`` (percent-decoded, any case)."""
    action: str
    status: int = 500
    code: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    times: int | None = None
    """To how many requests it applies; None: to all."""
    after: int = 0
    """How many matching requests it ignores first."""
    fields: list[str] = field(default_factory=list)
    """For strip: dotted paths below each resource, such as properties.orchestrationMode."""
    delay_s: float | None = None
    """By how many seconds the answer is delayed. None for hang: until the rules are cleared."""
    service: str = "arm"
    """The service of the requests: arm (Resource Manager), imds (metadata service), vault (key vaults), or deployment:
    ``PUT id`` and ``VALIDATE id`` of every resource of a deployment, with the actions status, slow and hang."""
    machines: list[str] = field(default_factory=list)
    """The machines that send the requests, by id, vmId, name or computer name; empty: all. They need not exist yet."""
    id: int = 0
    seen: int = 0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise FaultError(f"unknown action {self.action!r}: choose one of {', '.join(ACTIONS)}")
        if self.action == "strip" and not self.fields:
            raise FaultError("action 'strip' needs 'fields'")
        if self.action == "slow" and not self.delay_s:
            raise FaultError("action 'slow' needs 'delay_s'")
        if self.service not in SERVICES:
            raise FaultError(f"unknown service {self.service!r}: choose one of {', '.join(SERVICES)}")
        if self.machines and self.service in ("arm", "deployment"):
            raise FaultError("'machines' is only for the services that machines use: imds, vault")
        try:
            self.pattern = re.compile(self.match, re.IGNORECASE)
        except re.error as error:
            raise FaultError(f"match {self.match!r} is not a regular expression: {error}") from error


class Faults:
    """The active rules."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lock = threading.Lock()
        self._count = 0
        self.released = threading.Event()
        """Set when the rules are cleared, which ends hanging requests."""

    def add(self, **rule: Any) -> int:
        """Add a rule and return its number."""
        try:
            fault = Fault(**rule)
        except TypeError as error:
            raise FaultError(str(error).replace("Fault.__init__() ", "")) from error
        with self._lock:
            self._count += 1
            fault.id = self._count
            self._rules.append(fault)
            return fault.id

    def clear(self) -> None:
        """Delete all rules and end hanging requests."""
        with self._lock:
            self._rules.clear()
            self.released.set()
            self.released = threading.Event()

    def applying(self, request: str, service: str = "arm", all_names: Set[str] = frozenset()) -> Fault | None:
        """The rule for this request, which is counted. ``all_names`` are the names of the machine that sends it."""
        with self._lock:
            for fault in self._rules:
                if fault.service != service or (fault.machines and not all_names & _lower(fault.machines)):
                    continue
                if fault.pattern.search(request):
                    fault.seen += 1
                    used = fault.seen - fault.after
                    if used > 0 and (fault.times is None or used <= fault.times):
                        return fault
        return None


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def strip(payload: Any, path: str) -> None:
    """Delete the field at a dotted path, in every element of lists in the path."""
    if isinstance(payload, list):
        for item in payload:
            strip(item, path)
    elif isinstance(payload, dict):
        first, _dot, rest = path.partition(".")
        if not rest:
            payload.pop(first, None)
        elif first in payload:
            strip(payload[first], rest)
