# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State and options for request handlers, and answers with one or many resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from flask import Response, current_app

from simulator import published
from simulator.effects import Effects
from simulator.faults import Faults
from simulator.model import Model
from simulator.operations import Operations
from simulator.requestlog import RequestLog
from simulator.resources import Instance

JSON = "application/json; charset=utf-8"


@dataclass
class Options:
    """How the simulated Resource Manager behaves."""

    vm_page_size: int = 120
    interface_page_size: int = 100
    page_size: int = 100
    """Page size of all other lists."""
    price_page_size: int = 1000
    latency_ms: float = 0
    """Added to every request."""
    poll_ms: int = 1000
    """How long clients should wait between polls of a long-running operation."""
    unregistered: tuple[str, ...] = ()
    """Resource providers that the subscription is not registered for."""
    real: bool = False
    """Whether there are real machines, whose addresses must be in the scenario's range."""
    only_published: bool = False
    """Delete every field that Azure's published examples do not have."""


@dataclass
class Context:
    """State and options of one simulator."""

    model: Model
    effects: Effects
    operations: Operations
    faults: Faults
    requests: dict[str, RequestLog]
    """The request log of each service, by the service's name."""
    options: Options

    def encode(self, kind: str, payload: dict[str, Any]) -> bytes:
        """A resource as JSON."""
        if self.options.only_published:
            payload = published.prune(kind, payload)
        return json.dumps(payload, separators=(",", ":")).encode()

    def encode_instance(
        self, kind: str, instance: Instance, render: Callable[[], dict[str, Any]], variant: str = ""
    ) -> bytes:
        """A machine as JSON. It is encoded again only after the machine has changed."""
        key = kind + variant
        encoded = instance.rendered.get(key)
        if encoded is None:
            with self.model.lock:
                encoded = instance.rendered[key] = self.encode(kind, render())
        return encoded


def context() -> Context:
    """The context of the simulator that handles the current request."""
    return cast(Context, current_app.config["context"])


def one(encoded: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer with one resource."""
    return Response(encoded, status=status, content_type=JSON, headers=headers)


def many(encoded: Iterable[bytes], next_link: str | None) -> Response:
    """An answer with a page of resources."""
    end = b"]" if next_link is None else b'],"nextLink":' + json.dumps(next_link).encode()
    return Response(b'{"value":[' + b",".join(encoded) + end + b"}", content_type=JSON)
