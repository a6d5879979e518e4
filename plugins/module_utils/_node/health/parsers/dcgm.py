# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The JSON of ``dcgmi diag``: of DCGM 2 and 3, which has results by ``gpu_id``, and of 4, by ``entity_id``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TITLES = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUS = {"pass": "pass", "skip": "skip", "warn": "warn", "fail": "fail", "not run": "skip"}
_GPU = "gpu"


@dataclass(frozen=True)
class TestResult:
    """A test on a GPU.

    :ivar test: its name, e.g. ``PCIe``, ``memory``.
    :ivar gpu: DCGM's number of the GPU; None for one of the whole machine.
    :ivar status: ``pass``, ``warn``, ``fail``, ``skip``; empty where it is none of them.
    :ivar warnings: what DCGM says of it.
    """

    test: str
    gpu: int | None
    status: str
    warnings: tuple[str, ...]

    __test__ = False


@dataclass(frozen=True)
class Diagnosis:
    """What a diagnosis said.

    :ivar error: why it could not be done; empty where it could.
    """

    results: tuple[TestResult, ...]
    error: str = ""


def parse(text: str) -> Diagnosis:
    """Return what a diagnosis printed; ``error`` says why where it is none."""
    start = text.find("{")
    try:
        said = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else None
    except ValueError:
        said = None
    if not isinstance(said, Mapping):
        return Diagnosis((), "it printed no JSON")
    body = next((said[title] for title in _TITLES if isinstance(said.get(title), Mapping)), said)
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
    """Return the numbers of the GPUs; one None for a result that is not a GPU's."""
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
