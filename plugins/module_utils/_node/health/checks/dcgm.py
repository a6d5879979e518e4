# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether NVIDIA's own diagnosis finds something."""

from __future__ import annotations

from ..check import DEEP, FAIL, RESET_GPU, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..deep import gpus, tools
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..nvidia_sizes import with_nvidia_gpus
from ..parsers import dcgm
from ..settings import FILE

NAME = "dcgm"

_LIMITS_S = {1: 60.0, 2: 300.0, 3: 1500.0}
"""Seconds that a diagnosis of each level may take: NVIDIA says that they take seconds, 2 minutes, and 15 minutes."""


def measure(context: Context) -> Answer:
    """Run ``dcgmi diag`` of the level that the site wants, 2 where it says nothing."""
    level: int = context.settings.option(CHECK, "level")
    if level not in _LIMITS_S:
        words = f"options.dcgm.level is {level}, and there are {', '.join(map(str, _LIMITS_S))}"
        return Answer(findings=(Finding(UNKNOWN, words, hint=f"Mend it in {FILE}"),))
    path = tools.needed(context, CHECK, "dcgmi", source="datacenter-gpu-manager")
    present = [gpu.busid for gpu in gpus.present(context)]
    must_be_idle(context, CHECK)
    result = tools.call(context, [path, "diag", "-r", str(level), "-j"], _LIMITS_S[level])
    if result.rc in (tools.OVERDUE, tools.KILLED_BY + 9):
        return Answer(findings=(tools.no_answer(context, "dcgmi diag", _LIMITS_S[level]),))
    tools.answered(context, "dcgmi diag")
    # It ends with an error where a test fails, too: what it says of the tests counts first.
    diagnosis = dcgm.parse(result.stdout)
    findings = [finding for one in diagnosis.results for finding in _finding(one, present)]
    passed = sum(one.status == "pass" for one in diagnosis.results)
    if diagnosis.error and not any(finding.verdict == FAIL for finding in findings):
        said = tools.last_line(result) if diagnosis.error == "it printed no JSON" else diagnosis.error
        hint = "See that nvidia-dcgm runs: systemctl status nvidia-dcgm"
        findings.append(Finding(UNKNOWN, f"dcgmi diag could not be done: {said}", hint=hint))
    elif not passed and not findings:
        findings.append(Finding(UNKNOWN, "dcgmi diag left out all of its tests"))
    elif result.rc and not findings:
        findings.append(Finding(UNKNOWN, f"dcgmi diag failed (exit status {result.rc}), and no test of it did"))
    readings = (Reading("dcgm_tests_passed", passed),) if passed else ()
    good = f"level {level}, {passed} tests on {len(present)} GPUs passed, by DCGM"
    return Answer(good, readings, tuple(findings))


def _finding(result: dcgm.TestResult, busids: list[str]) -> list[Finding]:
    if result.status in ("pass", "skip"):
        return []
    # DCGM numbers the GPUs as NVML does, which is by PCI address.
    known = result.gpu is not None and result.gpu < len(busids)
    device = "" if result.gpu is None else busids[result.gpu] if known else f"GPU {result.gpu}"
    said = f": {result.warnings[0]}" if result.warnings else ""
    where = f" of {device}" if device else ""
    if not result.status:
        return [Finding(UNKNOWN, f"DCGM's test {result.test}{where} has no result{said}", device)]
    verdict = WARN if result.status == "warn" else FAIL
    how = "warns" if verdict == WARN else "failed"
    return [Finding(verdict, f"DCGM's test {result.test}{where} {how}{said}", device)]


CHECK = Check(
    name=NAME,
    title="NVIDIA's diagnosis",
    explain="Runs 'dcgmi diag' of level 2 (2 minutes), or of the level in options.dcgm.level: 1 (seconds), 3 (15 "
    "minutes). The limits are DCGM's own. A test that is left out says nothing.",
    tiers=(DEEP,),
    measure=measure,
    applies=with_nvidia_gpus,
    limit_s=max(_LIMITS_S.values()) + 60,
    action=RESET_GPU,
    fault="NHC2001",
    asks_device=True,
    options={**WITH_PROGRAM, "level": 2},
)
