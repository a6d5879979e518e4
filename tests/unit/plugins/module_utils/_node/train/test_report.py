# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a training: what was reached, at which cost, and which node was slow."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.module_utils._node.train import report
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.catalog import MODELS
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.layout import Job, Layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan import Options, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import Size, read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.record import Outcome, Record

A100 = SIZES["Standard_ND96amsr_A100_v4"]


def line(rank: int, step: int, **given: Any) -> str:
    """Return a line of a rank."""
    values = {"t": 1000.0 + step, "step": step, "rank": rank, "node": f"c-{rank}", "samples": 512}
    return json.dumps({**values, "step_s": 2.0, "data_s": 0.01, "own_s": 0.5, **given})


@pytest.fixture
def job(tmp_path: pathlib.Path) -> pathlib.Path:
    """A job folder with the progress of two ranks."""
    for rank in (0, 1):
        lines = [line(rank, step, loss=5 - step / 100) for step in (50, 100)]
        (tmp_path / f"rank-{rank}.jsonl").write_text("\n".join([*lines, '{"t": 1', "no JSON"]) + "\n")
    return tmp_path


def two_runs() -> Record:
    """Return a record with a run that was killed, and one that finished."""
    record = Record("gpt-megatron 1.7B").begun(("c-0", "c-1"), 1000.0, 0)
    record = record.ended(1120.0, Outcome("exit", 137, ("c-1",)), 50).decided("Requeued, without c-1.")
    return record.begun(("c-0", "c-2"), 1150.0, 50).ended(1260.0, Outcome("exit", 0), 100).decided("The job finished.")


def test_the_report_has_what_was_reached_against_what_was_expected(job: pathlib.Path) -> None:
    model = MODELS["1.7B"]
    made = plan(model, Job(4, 8, Layout(), 1, 512), A100)
    found = report.report(two_runs(), report.read_progress(str(job)), made, 32, 2000.0, 30.0, "USD")
    assert (found.steps, found.loss, found.step_s, found.runs) == (100, 4.0, 2.0, 2)
    rate = model.flops(512, "full") / (32 * 2.0 * 1e12)
    assert found.rate == pytest.approx(rate)
    assert found.expected is not None
    assert found.expected[0] == pytest.approx(137)
    assert found.of_expected == pytest.approx(rate / 137)
    assert found.tokens_per_s_gpu == pytest.approx(512 * 2048 / 2.0 / 32)
    assert found.mfu == pytest.approx(model.flops(512) / (32 * 2.0 * 1e12) / 312)
    # 260 seconds, of which 100 steps of two seconds were useful; both runs had two nodes.
    assert (found.wall_s, found.trained_s) == (260.0, 200.0)
    assert found.lost == pytest.approx(60 / 260)
    assert found.cost == pytest.approx(30.0 * (120 + 110) * 2 / 3600)
    text = report.as_text(found)
    assert "23.1% of it in starts, checkpoints and repeated steps" in text
    assert "Requeued, without c-1." in text
    assert json.loads(json.dumps(report.as_data(found)))["steps"] == 100


def test_a_report_without_a_plan_has_samples_only(job: pathlib.Path) -> None:
    found = report.report(two_runs(), report.read_progress(str(job)), None, 2, 2000.0)
    assert (found.samples_per_s, found.rate, found.mfu, found.cost) == (256.0, None, None, None)
    assert "samples/s" in report.as_text(found)


BERT, COSMOFLOW, RESNET = (
    read_recipe(str(pathlib.Path(__file__).resolve().parents[6] / "roles/training/files"), name).size(size)
    for name, size in (("bert-ddp", "large"), ("cosmoflow", "v0.7"), ("resnet-scaling", "large"))
)


@pytest.mark.parametrize(
    ("size", "efficiency", "value", "words"),
    [
        # 512 samples in two seconds on eight GPUs.
        (BERT, None, 32, "28 samples/s per GPU (sequences on V100; SR-IOV for distributed training"),
        (COSMOFLOW, None, 32 * 16.777216, "191 MB/s of data per GPU (an epoch of 327,680 samples in 15 minutes"),
        (RESNET, 0.81, 81, "90 % scaling efficiency (or more; SR-IOV for distributed training"),
    ],
)
def test_a_published_result_in_another_unit_is_compared_with_what_was_reached(
    job: pathlib.Path, size: Size, efficiency: float | None, value: float, words: str
) -> None:
    progress = report.read_progress(str(job))
    found = report.report(two_runs(), progress, None, 8, 2000.0, size=size, efficiency=efficiency)
    assert found.reached is not None
    assert found.reached.value == pytest.approx(value)
    text = report.as_text(found)
    assert size.expected is not None
    assert f"reached   {value:.4g} {size.expected.unit}\n" in text
    assert f"expected  {words}" in text
    assert f"so {value / size.expected.value:.0%} were reached" in text
    assert json.loads(json.dumps(report.as_data(found)))["reached"]["value"] == pytest.approx(value)


def test_a_published_result_that_was_not_measured_is_shown(job: pathlib.Path) -> None:
    found = report.report(two_runs(), report.read_progress(str(job)), None, 8, 2000.0, size=RESNET)
    assert found.reached is not None
    assert found.reached.value is None
    assert "(Azure blog, 2019)), not measured yet" in report.as_text(found)
    assert report.read_efficiency(str(job)) is None
    (job / "scaling.json").write_text('{"nodes": 2, "efficiency": 0.93}')
    assert report.read_efficiency(str(job)) == 0.93


def test_the_peak_of_a_gpu_without_bf16_is_that_of_fp16(job: pathlib.Path) -> None:
    """bert-ddp trains in fp16 there."""
    v100 = SIZES["Standard_ND40rs_v2"]
    made = plan(MODELS["bert-large"], Job(2, 8, Layout(recomputation="none"), 8), v100)
    found = report.report(two_runs(), report.read_progress(str(job)), made, 16, 2000.0, size=BERT)
    assert found.mfu == pytest.approx(MODELS["bert-large"].flops(512) / (16 * 2.0 * 1e12) / 125)
    text = report.as_text(found)
    # One expected result, and not beside it that nothing was published.
    assert text.count("expected") == 1
    assert "28 samples/s per GPU" in text


def test_a_run_that_trained_nothing_is_reported(tmp_path: pathlib.Path) -> None:
    record = Record("fsdp tiny").begun(("c-0",), 1000.0, 0)
    found = report.report(record, report.read_progress(str(tmp_path)), None, 1, 1060.0)
    assert (found.steps, found.step_s, found.lost, found.wall_s) == (0, None, None, 60.0)
    assert "60 s in 1 run" in report.as_text(found)


def test_a_killed_run_costs_nothing_after_the_next_one_began(job: pathlib.Path) -> None:
    """Also in a record of an earlier version, which has no end of a run that was killed."""
    first, second = two_runs().runs
    record = Record("fsdp tiny", (replace(first, ended=None), second))
    found = report.report(record, report.read_progress(str(job)), None, 2, 90000.0, 36.0)
    assert found.wall_s == 260.0
    assert found.cost == pytest.approx(36.0 * (150 + 110) * 2 / 3600)
    assert report.last_seen(str(job)) == (job / "rank-0.jsonl").stat().st_mtime
    assert report.last_seen(str(job / "no")) == 0


def test_a_slow_node_is_in_the_report(job: pathlib.Path) -> None:
    (job / "rank-1.jsonl").write_text(line(1, 100, own_s=1.5) + "\n")
    found = report.report(two_runs(), report.read_progress(str(job)), None, 2, 2000.0)
    assert [one.subject for one in found.slow] == ["c-1"]
    assert "c-1 is slow" in report.as_text(found)


def test_a_rate_given_for_the_plan_is_what_is_expected(job: pathlib.Path) -> None:
    made = plan(MODELS["1.7B"], Job(4, 8, Layout(), 1, 512), A100, Options(rate=100))
    found = report.report(two_runs(), report.read_progress(str(job)), made, 32, 2000.0)
    assert found.expected is not None
    rate, source = found.expected
    assert rate == pytest.approx(100)
    assert source == "given"
