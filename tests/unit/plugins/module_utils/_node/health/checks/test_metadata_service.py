# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only root can use the metadata service: rules loaded, missing, changed, turned off, unreadable; Azure's agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.metadata_service import METADATA_SERVICE
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata import connect
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.rules import RULES, rules

from ...setup.metadata.filters import Kernel
from ...setup.metadata.machine import NO_TABLE, listing
from ..playing import context

LIST = "nft --json list table inet hpcai_metadata"
TEXT = rules((0,), has_agent=False)


def measure(folder: Path, rules: str | tuple[int, str] | None, guard: str = "true", text: str | None = TEXT) -> Answer:
    """Check a machine with these rules and settings."""
    (folder / "etc/hpcai").mkdir(parents=True, exist_ok=True)
    (folder / "etc/hpcai/metadata.json").write_text(f'{{"schema": 1, "guard": {guard}, "users": []}}')
    if text is not None:
        (folder / RULES.lstrip("/")).write_text(text)
    return METADATA_SERVICE.measure(context(root=folder, run={} if rules is None else {LIST: rules}))


def agent(folder: Path, state: str) -> None:
    """Add Azure's agent in this state."""
    (folder / "etc/azure").mkdir(parents=True)
    (folder / "etc/azure/proxy-agent.json").write_text('{"logFolder": "/var/log/azure-proxy-agent"}')
    (folder / "var/log/azure-proxy-agent").mkdir(parents=True)
    status = f'{{"proxyAgentStatus": {{"keyLatchStatus": {{"states": {{"secureChannelState": "{state}"}}}}}}}}'
    (folder / "var/log/azure-proxy-agent/status.json").write_text(status)


def test_passes_if_the_rules_are_loaded(tmp_path: Path) -> None:
    answer = measure(tmp_path, listing(TEXT))
    assert answer.findings == ()
    assert answer.good == "only root and listed users reach the metadata service"
    assert [reading.value for reading in answer.readings] == ["loaded"]


@pytest.mark.parametrize("rules", [(1, NO_TABLE), listing(TEXT.replace("no user", "x"))])
def test_fails_if_the_kernel_has_other_rules_or_none(tmp_path: Path, rules: str | tuple[int, str]) -> None:
    (found,) = measure(tmp_path, rules).findings
    assert found.verdict == "fail"
    assert found.summary.endswith(
        "every user of this machine can reach the metadata service, and use the node's identity"
    )
    assert found.hint == "Run 'systemctl reload hpcai-metadata.service'"


def test_fails_if_the_file_of_rules_is_missing(tmp_path: Path) -> None:
    (found,) = measure(tmp_path, listing(TEXT), text=None).findings
    assert (found.verdict, "metadata.nft is missing" in found.summary) == ("fail", True)


@pytest.mark.parametrize("rules", [None, (1, "Operation not permitted"), "", (124, "no answer within 2 s")])
def test_cannot_measure_if_nft_does_not_list_the_rules(tmp_path: Path, rules: str | tuple[int, str] | None) -> None:
    assert [found.verdict for found in measure(tmp_path, rules).findings] == ["unknown"]


def test_is_skipped_if_turned_off_and_never_passes(tmp_path: Path) -> None:
    answer = measure(tmp_path, None, guard="false")
    assert (answer.good, answer.findings) == ("", ())
    assert answer.skipped.startswith("turned off by /etc/hpcai/metadata.json, so every user")
    agent(tmp_path, "Wireserver Enforce - IMDS Enforce")
    answer = measure(tmp_path, None, guard="false")
    assert answer.skipped.endswith("restricts the access instead: Wireserver Enforce - IMDS Enforce")
    (tmp_path / "etc/hpcai/metadata.json").unlink()
    assert METADATA_SERVICE.measure(context(root=tmp_path)).skipped.startswith("no /etc/hpcai/metadata.json")


def test_warns_of_an_agent_that_the_rules_do_not_include(tmp_path: Path) -> None:
    agent(tmp_path, "Wireserver Audit - IMDS Audit")
    (found,) = measure(tmp_path, listing(TEXT)).findings
    assert (found.verdict, "forwards requests of all users" in found.summary) == ("warn", True)
    known = rules((0,), has_agent=True)
    answer = measure(tmp_path, listing(known), text=known)
    assert answer.findings == ()
    assert answer.good.endswith("; Azure's guest proxy agent: Wireserver Audit - IMDS Audit")
    assert answer.readings[1].value == "Wireserver Audit - IMDS Audit"


def test_warns_of_a_filter_that_the_kernel_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(monkeypatch)
    (found,) = measure(tmp_path, listing(TEXT)).findings
    assert (found.verdict, found.hint) == ("warn", "Run '/usr/bin/hpcnode metadata attach' as root, or site.yml")
    assert found.summary.startswith("the kernel lacks the filter for sockets that root opened: a job that inherits one")
    connect.attach(Root(str(tmp_path)), ())
    assert measure(tmp_path, listing(TEXT)).findings == ()
