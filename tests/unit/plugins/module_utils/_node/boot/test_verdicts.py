# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effect of a verdict in each context: blocks slurmd, refuses the job, drains the node, or nothing."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.engine import StepRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome, Step, at_boot
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import health
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog, perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    BOOT,
    PERIODIC,
    PROLOG,
    Answer,
    Finding,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import TierRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.content import blocking_of, report_of

VERDICTS = ("pass", "warn", "fail", "unknown", "skip")
NODE = {"boot_id": "11111111-2222", "vm_id": "", "host": "", "name": "", "vm_size": "", "image": "", "collection": ""}


def run_of(tier: str, check: str, verdict: str, cause: str = "node") -> TierRun:
    """Return a run of one check."""
    result = Result(check, verdict, "words", Answer(), action="reboot", cause=cause)
    return TierRun(tier, 0.0, 0.1, (catalog.load(check),), (result,))


@pytest.mark.parametrize(
    ("blocking", "blocks"),
    [(True, {"fail", "unknown"}), (False, set())],
    ids=["blocking step", "other step"],
)
def test_a_boot_step_blocks_slurmd_on_fail_and_on_unknown(blocking: bool, blocks: set[str]) -> None:
    step = Step("demo", "Demo", blocking, 1.0, lambda _context: Outcome("pass", ""))
    assert {one for one in VERDICTS if StepRun(step, Outcome(one, "words"), 0.1).blocks} == blocks
    assert {one for one in VERDICTS if StepRun(step, Outcome(one, "words"), 0.1).bad} == {"fail", "unknown"}


@pytest.mark.parametrize(
    ("check", "outcomes"),
    [
        ("gpu_count", {"pass": "pass", "warn": "warn", "fail": "fail", "unknown": "warn", "skip": "skip"}),
        ("swap", {"pass": "pass", "warn": "warn", "fail": "warn", "unknown": "warn", "skip": "skip"}),
    ],
    ids=["blocks_boot", "other check"],
)
def test_a_health_check_at_boot_blocks_on_fail_only(check: str, outcomes: dict[str, str]) -> None:
    assert {one: health.judge(run_of(BOOT, check, one)).verdict for one in VERDICTS} == outcomes


@pytest.mark.parametrize(
    ("check", "verdicts"),
    [
        ("ib_ports", {"warn": "warn", "fail": "fail", "unknown": "unknown"}),
        ("ib_rate", {"warn": "warn", "fail": "warn", "unknown": "warn"}),
    ],
    ids=["blocks_boot", "other check"],
)
def test_a_check_that_a_boot_step_calls_blocks_on_fail_and_on_unknown(check: str, verdicts: dict[str, str]) -> None:
    found = {one: at_boot(catalog.load(check), [Finding(one, "words", hint="mend it")]) for one in verdicts}
    assert {one: [finding.verdict for finding in made] for one, made in found.items()} == {
        one: [verdict] for one, verdict in verdicts.items()
    }
    assert all((finding.summary, finding.hint) == ("words", "mend it") for made in found.values() for finding in made)


@pytest.mark.parametrize(
    ("tier", "check", "cause", "statuses"),
    [
        (PROLOG, "gpu_count", "node", {"pass": 0, "warn": 0, "fail": 1, "unknown": 0, "skip": 0}),
        (PROLOG, "gpu_count", "user", {"pass": 0, "warn": 0, "fail": 0, "unknown": 0, "skip": 0}),
        (PROLOG, "gpu_ecc", "node", {"pass": 0, "warn": 0, "fail": 0, "unknown": 0, "skip": 0}),
        (PERIODIC, "gpu_count", "node", {"pass": 0, "warn": 0, "fail": 1, "unknown": 2, "skip": 2}),
        (PERIODIC, "swap", "node", {"pass": 0, "warn": 0, "fail": 1, "unknown": 2, "skip": 2}),
    ],
)
def test_exit_status_of_a_run(tier: str, check: str, cause: str, statuses: dict[str, int]) -> None:
    assert {one: perform.status_of(run_of(tier, check, one, cause)) for one in VERDICTS} == statuses


@pytest.mark.parametrize(
    ("check", "cause", "drains", "refuses"),
    [
        ("gpu_count", "node", {"fail"}, {"fail"}),
        ("gpu_count", "user", set(), set()),
        ("gpu_ecc", "node", {"fail"}, set()),
    ],
)
def test_only_a_failure_caused_by_the_node_drains_it(
    check: str, cause: str, drains: set[str], refuses: set[str]
) -> None:
    documents = {one: perform.as_document(run_of(PROLOG, check, one, cause), NODE) for one in VERDICTS}
    reports = {one: report_of([document])[0] for one, document in documents.items()}
    assert {one for one, report in reports.items() if report and report.faults} == drains
    assert {one for one, report in reports.items() if report and report.unknown} == {"unknown"}
    assert {one for one, document in documents.items() if blocking_of(document)} == refuses
