# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NVIDIA's diagnosis, 'dcgmi diag'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.run import last_line
from .. import deep
from ..applies import with_nvidia_gpus
from ..check import DEEP, FAIL, RESET_GPU, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..deep import WITH_PROGRAM, must_be_idle
from ..settings import FILE

# The JSON of ``dcgmi diag``: DCGM 2 and 3 have results by ``gpu_id``, DCGM 4 by ``entity_id``.

_TITLES = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUS = {"pass": "pass", "skip": "skip", "warn": "warn", "fail": "fail", "not run": "skip"}
_GPU = "gpu"


@dataclass(frozen=True)
class TestResult:
    """A test on a GPU.

    :ivar test: its name, e.g. ``PCIe``, ``memory``.
    :ivar gpu: DCGM's number of the GPU; None for a test of the machine.
    :ivar status: ``pass``, ``warn``, ``fail``, ``skip``; empty for any other.
    :ivar warnings: DCGM's messages.
    """

    test: str
    gpu: int | None
    status: str
    warnings: tuple[str, ...]

    __test__ = False


@dataclass(frozen=True)
class Diagnosis:
    """The result of a diagnosis.

    :ivar error: why it failed to run; empty if it ran.
    """

    results: tuple[TestResult, ...]
    error: str = ""


def parse(text: str) -> Diagnosis:
    """Return the results that a diagnosis printed, or why there are none in ``error``."""
    start = text.find("{")
    try:
        document = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else None
    except ValueError:
        document = None
    if not isinstance(document, Mapping):
        return Diagnosis((), "it printed no JSON")
    body = next((document[title] for title in _TITLES if isinstance(document.get(title), Mapping)), document)
    error = _error_of(body)
    results = tuple(_results(body))
    return Diagnosis(results, error or ("" if results else "it printed no results"))


def _error_of(body: Mapping[str, Any]) -> str:
    for key in ("runtime_error", "Warning", "error"):
        value = body.get(key)
        if isinstance(value, str) and value:
            return " ".join(value.split())
    return ""


def _results(body: Mapping[str, Any]) -> Iterator[TestResult]:
    for category in _listed(body.get("test_categories")):
        for test in _listed(category.get("tests")):
            results = _listed(test.get("results"))
            summary = test.get("test_summary")
            for result in results or ([summary] if isinstance(summary, Mapping) else []):
                yield from _of_result(str(test.get("name", "")), result)


def _of_result(test: str, result: Mapping[str, Any]) -> Iterator[TestResult]:
    status = _STATUS.get(str(result.get("status", "")).strip().lower(), "")
    warnings = tuple(
        " ".join(str(one.get("warning", "") if isinstance(one, Mapping) else one).split())
        for one in _any_list(result.get("warnings"))
    )
    for gpu in _gpus(result):
        yield TestResult(test, gpu, status, tuple(filter(None, warnings)))


def _gpus(result: Mapping[str, Any]) -> Sequence[int | None]:
    """Return the numbers of the GPUs; one None for a result that belongs to no GPU."""
    if "entity_id" in result:
        group = str(result.get("entity_group", "")).lower()
        number = result["entity_id"]
        return [number] if group == _GPU and isinstance(number, int) else [None]
    text = str(result.get("gpu_id", result.get("gpu_ids", "")))
    numbers = [int(word) for word in text.replace(",", " ").split() if word.isdecimal()]
    return numbers or [None]


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _any_list(value) if isinstance(one, Mapping)]


def _any_list(value: Any) -> list[Any]:
    return [one for one in value if one is not None] if isinstance(value, list) else []


# Whether NVIDIA's diagnosis finds a problem.

NAME = "dcgm"

_LIMITS_S = {1: 60.0, 2: 300.0, 3: 1500.0}
"""Timeout of each level in seconds: according to NVIDIA they take seconds, 2 minutes, and 15 minutes."""


def measure(context: Context) -> Answer:
    """Run ``dcgmi diag`` with the site's level, by default 2."""
    level: int = context.option(DCGM, "level")
    if level not in _LIMITS_S:
        words = f"options.dcgm.level is {level}, but must be one of {', '.join(map(str, _LIMITS_S))}"
        return Answer(findings=(Finding(UNKNOWN, words, hint=f"Correct it in {FILE}"),))
    path = deep.required_program(context, DCGM, "dcgmi", source="datacenter-gpu-manager")
    present = [gpu.busid for gpu in deep.present_gpus(context)]
    must_be_idle(context, DCGM)
    result = deep.run_tool(context, [path, "diag", "-r", str(level), "-j"], _LIMITS_S[level])
    if result.rc in (deep.OVERDUE, deep.KILLED_BY + 9):
        return Answer(findings=(deep.timeout_finding(context, "dcgmi diag", _LIMITS_S[level]),))
    deep.clear_timeout(context, "dcgmi diag")
    # The exit status is also an error if a test fails, so the results of the tests are evaluated first.
    diagnosis = parse(result.stdout)
    findings = [finding for one in diagnosis.results for finding in _finding(one, present)]
    passed = sum(one.status == "pass" for one in diagnosis.results)
    if diagnosis.error and not any(finding.verdict == FAIL for finding in findings):
        reason = last_line(result) if diagnosis.error == "it printed no JSON" else diagnosis.error
        hint = "Check that nvidia-dcgm runs: systemctl status nvidia-dcgm"
        findings.append(Finding(UNKNOWN, f"dcgmi diag could not run: {reason}", hint=hint))
    elif not passed and not findings:
        findings.append(Finding(UNKNOWN, "dcgmi diag skipped all of its tests"))
    elif result.rc and not findings:
        findings.append(Finding(UNKNOWN, f"dcgmi diag failed (exit status {result.rc}), but none of its tests failed"))
    readings = (Reading("dcgm_tests_passed", passed),) if passed else ()
    good = f"level {level}, {passed} tests on {len(present)} GPUs passed, by DCGM"
    return Answer(good, readings, tuple(findings))


def _finding(result: TestResult, busids: list[str]) -> list[Finding]:
    if result.status in ("pass", "skip"):
        return []
    # DCGM numbers the GPUs by PCI address, as NVML does.
    known = result.gpu is not None and result.gpu < len(busids)
    device = "" if result.gpu is None else busids[result.gpu] if known else f"GPU {result.gpu}"
    warning = f": {result.warnings[0]}" if result.warnings else ""
    where = f" of {device}" if device else ""
    if not result.status:
        return [Finding(UNKNOWN, f"DCGM's test {result.test}{where} has no result{warning}", device)]
    verdict = WARN if result.status == "warn" else FAIL
    how = "warns" if verdict == WARN else "failed"
    return [Finding(verdict, f"DCGM's test {result.test}{where} {how}{warning}", device)]


DCGM = Check(
    name=NAME,
    title="NVIDIA's diagnosis",
    explain=(
        "Runs 'dcgmi diag' with the level in the option level. Level 1 takes seconds, level 2 (the default) 2 minutes, "
        "and level 3 15 minutes. The limits are DCGM's. Tests that DCGM skips do not count."
    ),
    tiers=(DEEP,),
    measure=measure,
    applies=with_nvidia_gpus,
    limit_s=max(_LIMITS_S.values()) + 60,
    action=RESET_GPU,
    fault="NHC2001",
    asks_device=True,
    options={**WITH_PROGRAM, "level": 2},
)
