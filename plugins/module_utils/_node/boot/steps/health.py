# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step health: runs the checks of the tier boot. Only checks of what every job needs keep slurmd from starting."""

from __future__ import annotations

from ...health.check import BOOT, FAIL, SKIP, UNKNOWN, WARN, Finding
from ...health.engine import TierRun
from ...health.measure import TimedRun
from ...health.perform import perform as perform_tier
from ...health.report.files import is_set_up, read_settings
from ...machine.run import run as run_command
from ...version import VERSION
from ..size import expected_size
from ..step import Context, Outcome, Step, at_boot, outcome_of


def perform(context: Context, run: TimedRun = run_command) -> Outcome:
    """Run the checks of the tier, if the role set them up.

    :param run: runs the checks' commands, each with its own timeout.
    """
    if not is_set_up(context.root):
        return Outcome(SKIP, "the role hpcai.azure.health_checks has set up no checks here")
    if not read_settings(context.root).boot:
        return Outcome(SKIP, "health_checks_report.boot turns it off")
    if expected_size(context.root) is None:
        return Outcome(SKIP, "this is not a compute node, and its VM size is not known")
    if context.check:
        return Outcome(SKIP, "check mode runs no health checks")
    done = perform_tier(BOOT, (), context.root, run, VERSION)
    return judge(done.run)


def judge(done: TierRun) -> Outcome:
    """Return the step's outcome: it fails only for a check that may keep slurmd from starting."""
    findings = [
        finding
        for check, result in zip(done.checks, done.results)
        if result.verdict in (FAIL, UNKNOWN, WARN)
        for finding in at_boot(
            check,
            [Finding(result.verdict, f"{result.name}: {result.summary}", hint=result.hint)],
            BOOT,
        )
    ]
    measured = sum(result.verdict != SKIP for result in done.results)
    if not measured:
        return Outcome(SKIP, f"all {len(done.results)} checks were skipped, so the node's health is not known")
    good = f"{measured} of {len(done.results)} checks ran, and found no problem"
    return outcome_of(findings, good, (), {"verdicts": {one.name: one.verdict for one in done.results}})


STEP = Step("health", "Health checks of this node before its first job", blocking=True, limit_s=120, perform=perform)
