# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step health: which failed checks keep slurmd from starting, and which only warn."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.health import judge, perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    BOOT,
    FAIL,
    PASS,
    SKIP,
    WARN,
    Answer,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import TierRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.record import read
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result as Ran
from ansible_collections.hpcai.azure.plugins.module_utils._node.version import VERSION


def tier(**verdicts: str) -> TierRun:
    """Return a run of the tier boot with these verdicts."""
    checks = tuple(catalog.load(name) for name in verdicts)
    results = tuple(
        Result(name, verdict, f"{name} is so", Answer(), hint="Mend it") for name, verdict in verdicts.items()
    )
    return TierRun(BOOT, 0.0, 1.0, checks, results)


def test_a_failed_check_that_blocks_boot_fails_the_step() -> None:
    assert catalog.load("gpu_count").blocks_boot
    outcome = judge(tier(free_space="fail", gpu_count="fail"))
    assert (outcome.verdict, outcome.summary, outcome.action) == (
        FAIL,
        "gpu_count: gpu_count is so (and 1 more)",
        "Mend it",
    )


@pytest.mark.parametrize("verdict", ["fail", "unknown", "warn"])
def test_other_checks_only_warn(verdict: str) -> None:
    assert not catalog.load("free_space").blocks_boot
    outcome = judge(tier(free_space=verdict))
    assert (outcome.verdict, outcome.summary) == (WARN, "free_space: free_space is so")


def test_an_unknown_check_only_warns() -> None:
    assert judge(tier(gpu_count="unknown")).verdict == WARN


def test_a_good_node_passes() -> None:
    assert judge(tier(gpu_count="pass", free_space="skip")).verdict == PASS


def test_a_node_whose_checks_were_all_skipped_does_not_pass() -> None:
    outcome = judge(tier(gpu_count="skip", free_space="skip"))
    assert (outcome.verdict, outcome.summary) == (SKIP, "all 2 checks were skipped, so the node's health is not known")
    assert judge(tier(gpu_count="pass", free_space="skip")).summary == "1 of 2 checks ran, and found no problem"


@pytest.mark.parametrize(
    ("settings", "words"),
    [(None, "has set up no checks here"), ({"boot": False}, "health_checks_report.boot turns it off")],
)
def test_is_skipped_without_settings_or_if_turned_off(
    tmp_path: pathlib.Path, settings: dict[str, bool] | None, words: str
) -> None:
    if settings is not None:
        (tmp_path / "etc/hpcai").mkdir(parents=True)
        text = json.dumps({"schema": 1, **settings})
        (tmp_path / "etc/hpcai/health_report.json").write_text(text, encoding="utf-8")

    def run(command: object, seconds: float = 0) -> Ran:
        raise AssertionError(f"{command} was run")

    outcome = perform(Context(Root(str(tmp_path)), run), run)
    assert outcome.verdict == SKIP
    assert words in outcome.summary


def test_the_record_contains_the_collections_version(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "NAMES", ("swap",))
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/health_report.json").write_text('{"schema": 1}', encoding="utf-8")
    node = json.dumps({"schema": 1, "vm_size": "Standard_ND96asr_v4"})
    (tmp_path / "etc/hpcai/node.json").write_text(node, encoding="utf-8")
    context = Context(Root(str(tmp_path)), lambda _command: pytest.fail("no command"))
    perform(context, lambda command, _seconds: Ran(tuple(command), 127, "", ""))
    document = read(context.root, BOOT)
    assert document is not None
    assert document["node"]["collection"] == VERSION
