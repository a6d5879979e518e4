# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fault rules: which requests fail, how, how often, and from which request on."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Any

SCALE = "scale"
"""The service of rules for what Azure does with the instances of scale sets, after it has accepted a change."""
SCALE_ACTIONS = ("status", "slow", "hang", "revert", "omit", "hide", "reuse", "dead")
ACTIONS = ("status", "drop", "hang", "garbage", "slow", "repeat_next_link", "strip", "bucket", *SCALE_ACTIONS[3:])
SERVICES = ("arm", "imds", "vault", "deployment", SCALE)


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
    """The service of the requests: arm (Resource Manager), imds (metadata service), vault (key vaults), deployment:
    ``PUT id`` and ``VALIDATE id`` of every resource of a deployment, with the actions status, slow and hang; or scale:
    ``GROW id`` of a set, ``CREATE id`` of a set for each new instance, and ``DELETE id`` of an instance. The table in
    simulator.effects shows their actions."""
    machines: list[str] = field(default_factory=list)
    """The machines that send the requests, by id, vmId, name or computer name; empty: all. They need not exist yet."""
    tokens: int = 0
    """For bucket: how many requests it lets through at once. The others get status 429 and Retry-After."""
    refill_s: float = 60.0
    """For bucket: how long it takes until the bucket has one token more."""
    id: int = 0
    seen: int = 0
    left: float = field(default=0.0, init=False)
    filled: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise FaultError(f"unknown action {self.action!r}: choose one of {', '.join(ACTIONS)}")
        if self.action == "strip" and not self.fields:
            raise FaultError("action 'strip' needs 'fields'")
        if self.action == "bucket" and (self.service != "arm" or self.tokens < 1 or self.refill_s <= 0):
            raise FaultError("action 'bucket' is for Resource Manager, and needs 'tokens' and 'refill_s'")
        if (self.service == SCALE and self.action not in SCALE_ACTIONS) or (
            self.service != SCALE and self.action in SCALE_ACTIONS[3:]
        ):
            raise FaultError(f"service {SCALE!r} has the actions {', '.join(SCALE_ACTIONS)}, not {self.action!r}")
        if self.action == "slow" and not self.delay_s:
            raise FaultError("action 'slow' needs 'delay_s'")
        if self.service not in SERVICES:
            raise FaultError(f"unknown service {self.service!r}: choose one of {', '.join(SERVICES)}")
        if self.machines and self.service in ("arm", "deployment", SCALE):
            raise FaultError("'machines' is only for the services that machines use: imds, vault")
        try:
            self.pattern = re.compile(self.match, re.IGNORECASE)
        except re.error as error:
            raise FaultError(f"match {self.match!r} is not a regular expression: {error}") from error

    def missing_s(self, now: float) -> float:
        """Take a token from the bucket, and return 0; without one, return how long it takes until there is one."""
        if self.filled is None:
            self.left, self.filled = float(self.tokens), now
        self.left = min(float(self.tokens), self.left + (now - self.filled) / self.refill_s)
        self.filled = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) * self.refill_s

    def wait(self, released: threading.Event) -> None:
        """Wait for its delay; for hang without one, until the rules are cleared."""
        if self.action == "hang" or self.delay_s:
            released.wait(self.delay_s)


class Faults:
    """The active rules."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lock = threading.Lock()
        self._count = 0
        self.clock: Callable[[], float] = time.monotonic
        """The time that fills buckets. A test can replace it."""
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
                    if used <= 0 or (fault.times is not None and used > fault.times):
                        continue
                    if fault.action != "bucket":
                        return fault
                    missing_s = fault.missing_s(self.clock())
                    if missing_s:
                        wait = {"Retry-After": str(math.ceil(missing_s)), **fault.headers}
                        return replace(fault, action="status", status=429, code="TooManyRequests", headers=wait)
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
