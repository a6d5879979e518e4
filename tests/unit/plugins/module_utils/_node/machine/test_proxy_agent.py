# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of Azure's guest proxy agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.proxy_agent import ProxyAgent, read_proxy_agent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

# As in Azure's questions and answers on the Metadata Security Protocol, shortened.
PUBLISHED = {
    "version": "1.0.20",
    "status": "SUCCESS",
    "keyLatchStatus": {
        "status": "RUNNING",
        "states": {"secureChannelState": "Wireserver Enforce - IMDS Enforce"},
    },
    "ebpfProgramStatus": {"status": "RUNNING"},
}


def agent(folder: Path, config: str, status: Any) -> ProxyAgent | None:
    """Read the status of an agent with these files."""
    (folder / "etc/azure").mkdir(parents=True)
    (folder / "etc/azure/proxy-agent.json").write_text(config)
    (folder / "var/log/azure-proxy-agent").mkdir(parents=True)
    (folder / "var/log/azure-proxy-agent/status.json").write_text(json.dumps(status))
    return read_proxy_agent(Root(str(folder)))


@pytest.mark.parametrize("status", [PUBLISHED, {"proxyAgentStatus": PUBLISHED}, {"list": 1, "more": {"x": PUBLISHED}}])
@pytest.mark.parametrize("config", ['{"logFolder": "/var/log/azure-proxy-agent"}', "{}", "not json"])
def test_an_enforcing_agent_is_recognised(tmp_path: Path, config: str, status: dict[str, Any]) -> None:
    found = agent(tmp_path, config, status)
    assert found == ProxyAgent("Wireserver Enforce - IMDS Enforce")
    assert found.enforces


@pytest.mark.parametrize("status", [[], {}, {"keyLatchStatus": "odd"}, "x"])
def test_an_agent_without_a_valid_status_enforces_nothing(tmp_path: Path, status: object) -> None:
    found = agent(tmp_path, "{}", status)
    assert found == ProxyAgent("")
    assert not found.enforces


def test_without_an_agent_or_in_audit_mode_nothing_is_enforced(tmp_path: Path) -> None:
    assert read_proxy_agent(Root(str(tmp_path))) is None
    assert not ProxyAgent("Wireserver Enforce - IMDS Audit").enforces
