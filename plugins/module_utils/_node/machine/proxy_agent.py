# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state of Azure's guest proxy agent, which enforces the Metadata Security Protocol, from its files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .root import Root

_CONFIG = "/etc/azure/proxy-agent.json"
_LOGS = "/var/log/azure-proxy-agent"


@dataclass(frozen=True)
class ProxyAgent:
    """The agent.

    :ivar state: the agent's own text, such as ``Wireserver Enforce - IMDS Enforce``; empty if unknown.
    """

    state: str = ""

    @property
    def enforces(self) -> bool:
        """Whether Azure refuses requests to the metadata service that the agent has not signed."""
        return "imds enforce" in self.state.lower()


def read_proxy_agent(root: Root) -> ProxyAgent | None:
    """Return the agent's state; None if it is not installed."""
    if not root.exists(_CONFIG):
        return None
    folder = _json(root.text(_CONFIG)).get("logFolder")
    status = root.text(f"{folder if isinstance(folder, str) and folder.startswith('/') else _LOGS}/status.json")
    return ProxyAgent(_state(_json(status)))


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _state(status: dict[str, Any]) -> str:
    """Search for the state in the whole file, because its position differs between versions."""
    waiting: list[Any] = [status]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if isinstance(found.get("secureChannelState"), str):
                return str(found["secureChannelState"])
            waiting += found.values()
    return ""
