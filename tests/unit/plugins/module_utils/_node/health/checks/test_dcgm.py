# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's diagnosis by DCGM: its failures by GPU, and the cases without a result."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, WARN, CannotMeasure
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.dcgm import DCGM, parse

from ..deep_playing import Tool, machine, recorded, set_compute_processes
from ..playing import ND_A100, context

PROGRAM = "usr/bin/dcgmi"
GOOD_OUTPUT = recorded("dcgm4.json").replace('"Fail"', '"Pass"')


def diagnosis_of(status: str, runtime_error: str = "", **gpu: str) -> str:
    """Return a diagnosis with the result of one test."""
    tests = [{"name": "memory", "results": [{"status": status, **gpu}]}]
    return json.dumps({"runtime_error": runtime_error, "test_categories": [{"tests": tests}]})


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch)


def test_passes_if_all_tests_pass(tmp_path: pathlib.Path) -> None:
    tool = Tool(GOOD_OUTPUT)
    answer = DCGM.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert answer.findings == ()
    assert [(one.name, one.value) for one in answer.readings] == [("dcgm_tests_passed", 4)]
    assert tool.commands == [[f"/{PROGRAM}", "diag", "-r", "2", "-j"]]


@pytest.mark.parametrize(
    ("recording", "summary"),
    [
        (
            "dcgm3.json",
            "DCGM's test PCIe of 0002:00:00.0 failed: GPU 1's PCIe link width x8 is below the minimum of x16.",
        ),
        (
            "dcgm4.json",
            "DCGM's test memory of 0002:00:00.0 failed: Detected 12 volatile double-bit ECC error(s) in GPU 1.",
        ),
    ],
)
def test_fails_for_the_gpu_of_a_failed_test_with_any_exit_status(
    tmp_path: pathlib.Path, recording: str, summary: str
) -> None:
    tree = machine(tmp_path, ND_A100, PROGRAM)
    for rc in (0, 226):
        answer = DCGM.measure(context(tree, Tool((rc, recorded(recording), ""))))
        assert [(one.verdict, one.device, one.summary) for one in answer.findings] == [(FAIL, "0002:00:00.0", summary)]


@pytest.mark.parametrize(
    ("gpu", "device", "where"),
    [
        ({"gpu_id": "7"}, "000e:00:00.0", " of 000e:00:00.0"),
        ({"gpu_id": "8"}, "GPU 8", " of GPU 8"),
        ({}, "", ""),
    ],
)
def test_fails_for_a_gpu_without_an_address_and_for_the_machine(
    tmp_path: pathlib.Path, gpu: dict[str, str], device: str, where: str
) -> None:
    (finding,) = DCGM.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(diagnosis_of("Fail", **gpu)))).findings
    assert (finding.verdict, finding.device, finding.summary) == (FAIL, device, f"DCGM's test memory{where} failed")


def test_a_runtime_error_after_a_failed_test_is_not_reported(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100, PROGRAM)
    for status, verdicts in (("Fail", [FAIL]), ("Warn", [WARN, UNKNOWN])):
        answer = DCGM.measure(context(tree, Tool(diagnosis_of(status, runtime_error="the rest was not done"))))
        assert [one.verdict for one in answer.findings] == verdicts


@pytest.mark.parametrize(
    ("rc", "stdout", "words"),
    [
        (0, "", "nothing was printed"),
        (255, "Error: unable to establish a connection to the specified host: localhost\n", "unable to establish"),
        (0, '{"DCGM Diagnostic": {"runtime_error": "another diagnosis runs"}}', "another diagnosis runs"),
        (0, GOOD_OUTPUT.replace('"Pass"', '"Skip"'), "skipped all of its tests"),
        (1, GOOD_OUTPUT, "exit status 1"),
    ],
)
def test_cannot_measure_without_results(tmp_path: pathlib.Path, rc: int, stdout: str, words: str) -> None:
    answer = DCGM.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool((rc, stdout, ""))))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]
    assert words in answer.findings[0].summary


def test_cannot_measure_without_dcgm_or_with_an_invalid_level(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100)
    with pytest.raises(CannotMeasure, match="dcgmi"):
        DCGM.measure(context(tree))
    (finding,) = DCGM.measure(context(tree, options={"dcgm": {"level": 7}})).findings
    assert finding.summary == "options.dcgm.level is 7, but must be one of 1, 2, 3"


def test_the_level_of_the_site_has_its_own_timeout(tmp_path: pathlib.Path) -> None:
    tool = Tool(GOOD_OUTPUT)
    DCGM.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool, options={"dcgm": {"level": 3}}))
    assert tool.commands[0][3] == "3"
    assert tool.limits[0] >= 15 * 60


def test_a_diagnosis_that_hangs_is_unknown_and_fails_the_second_time(tmp_path: pathlib.Path) -> None:
    given = context(machine(tmp_path, ND_A100, PROGRAM), Tool((124, "", "")))
    assert [one.verdict for one in DCGM.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in DCGM.measure(given).findings] == [FAIL]


def test_output_of_dcgm_3() -> None:
    found = parse(recorded("dcgm3.json"))
    assert found.error == ""
    assert [(one.test, one.gpu, one.status) for one in found.results] == [
        ("Denylist", None, "pass"),
        ("Persistence Mode", None, "pass"),
        ("PCIe", 0, "pass"),
        ("PCIe", 1, "fail"),
        ("GPU Memory", 0, "skip"),
    ]
    assert found.results[3].warnings == ("GPU 1's PCIe link width x8 is below the minimum of x16.",)


def test_output_of_dcgm_4() -> None:
    found = parse(recorded("dcgm4.json"))
    assert [(one.test, one.gpu, one.status) for one in found.results] == [
        ("software", 0, "pass"),
        ("software", 1, "pass"),
        ("memory", 0, "pass"),
        ("memory", 1, "fail"),
    ]
    assert found.results[3].warnings == ("Detected 12 volatile double-bit ECC error(s) in GPU 1.",)


def test_a_test_summary_is_a_result_and_gpus_can_share_a_result() -> None:
    text = '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "test_summary": {"status": "FAIL"}}]}]}}'
    assert [(one.gpu, one.status) for one in parse(text).results] == [(None, "fail")]
    text = '{"test_categories": [{"tests": [{"name": "x", "results": [{"gpu_ids": "0,1", "status": "PASS"}]}]}]}'
    assert [(one.gpu, one.status) for one in parse(text).results] == [(0, "pass"), (1, "pass")]


def test_an_output_without_results_has_an_error() -> None:
    assert parse("").error == parse("Error: Unable to connect").error == parse("[1]").error == "it printed no JSON"
    assert parse('{"DCGM Diagnostic": {"runtime_error": "Host engine\\n died"}}').error == "Host engine died"
    assert parse("{}").error == "it printed no results"


def test_errors_that_are_empty_or_no_text_are_ignored() -> None:
    assert parse('{"runtime_error": 5, "Warning": "", "error": "no  GPU"}').error == "no GPU"
    assert parse('{"runtime_error": 5}').error == "it printed no results"


@pytest.mark.parametrize(
    ("entity", "gpu"),
    [
        ({"entity_group": "GPU", "entity_id": 3}, 3),
        ({"entity_group": "CPU", "entity_id": 3}, None),
        ({"entity_group": "GPU", "entity_id": "all"}, None),
    ],
)
def test_only_the_result_of_a_gpu_has_a_gpu_number(entity: dict[str, object], gpu: int | None) -> None:
    (result,) = parse(json.dumps({"test_categories": [{"tests": [{"name": "a", "results": [entity]}]}]})).results
    assert result.gpu == gpu
