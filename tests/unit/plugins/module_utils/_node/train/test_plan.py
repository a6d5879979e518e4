# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans: each rule of a layout, where its parts are, what stays unknown, and what is refused with what fits."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.module_utils._node.train import estimate
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.catalog import MODELS
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.layout import Job, Layout, gpu_positions, problems
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.memory import need, room
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.model import FULL, NONE, SELECTIVE, Model
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan import Options, Plan, fits, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan_text import as_data, as_text

A100 = SIZES["Standard_ND96amsr_A100_v4"]
B300 = SIZES["Standard_ND128isr_GB300_v6"]
SMALL = Model(24, 2304, 24, 2048)
GB = 1e9


def test_a_layout_without_problems_has_none() -> None:
    assert problems(SMALL, Job(4, 8, Layout(2, 2), 1, 64), A100) == []


@pytest.mark.parametrize(
    ("layout", "model", "batch", "words"),
    [
        (Layout(3), SMALL, None, "TP 3 does not divide the 8 GPUs of a node, which NVLink connects."),
        (Layout(16), Model(24, 2048, 32, 2048), None, "TP 16 does not divide the 8 GPUs of a node"),
        (Layout(8), dataclasses.replace(SMALL, heads=36), None, "TP 8 does not divide 36 heads."),
        (Layout(8), Model(24, 2308, 8, 2048), None, "TP 8 does not divide the hidden size 2308."),
        (Layout(8), Model(24, 2304, 24, 2048, kv_heads=3), None, "TP 8 and 3 heads of keys do not divide each other."),
        (Layout(), Model(24, 2304, 25, 2048), None, "25 heads do not divide the hidden size 2304."),
        (Layout(1, 16), SMALL, None, "PP 16 does not divide 24 layers."),
        (Layout(1, 8, 4), SMALL, None, "PP 8 with 4 parts per stage does not divide 24 layers."),
        (Layout(8, 3), SMALL, None, "TP 8 times PP 3 needs a multiple of 24 GPUs, not 32."),
        (Layout(), SMALL, 33, "A batch of 33 is no multiple of 1 samples times 32 replicas."),
        (Layout(1, 4, 2), SMALL, 48, "Several parts per stage need a multiple of 4 micro-batches per step, not 6."),
        (Layout(interleave=2), SMALL, None, "Several parts per stage need PP of 2 or more."),
        (Layout(sequence_parallel=True), SMALL, None, "Sequence parallelism needs TP of 2 or more."),
        (
            Layout(8, sequence_parallel=True),
            SMALL.with_sequence(2044),
            None,
            "TP 8 does not divide the sequence of 2044",
        ),
        (Layout(1, 2, zero=2), SMALL, None, "ZeRO-2 cannot be combined with PP"),
        (Layout(zero=1, distributed_optimizer=True), SMALL, None, "Megatron's distributed optimizer and ZeRO exclude"),
        (Layout(offload_optimizer=True), SMALL, None, "Optimizer offload needs ZeRO-1 or higher."),
        (Layout(zero=2, offload_nvme=True), SMALL, None, "Offload to NVMe needs ZeRO-3."),
        (Layout(zero=3, offload_nvme=True, offload_optimizer=True), SMALL, None, "either in host memory or on NVMe"),
        (Layout(offload_activations=True, recomputation=NONE), SMALL, None, "Activation offload moves the inputs"),
    ],
)
def test_each_rule_of_a_layout(layout: Layout, model: Model, batch: int | None, words: str) -> None:
    found = problems(model, Job(4, 8, layout, 1, batch), A100)
    assert any(words in problem for problem in found), found


def test_nvme_offload_needs_disks() -> None:
    layout = Layout(zero=3, offload_nvme=True)
    assert problems(SMALL, Job(1, 8, layout), A100) == []
    assert problems(SMALL, Job(1, 8, layout), SIZES["Standard_ND40rs_v2"]) == [
        "Standard_ND40rs_v2 has no local NVMe disks for the optimizer."
    ]


@pytest.mark.parametrize(
    ("layout", "bytes_per_parameter"),
    [
        (Layout(), 16),
        (Layout(zero=1), 4 + 12 / 32),
        (Layout(zero=2), 2 + 14 / 32),
        (Layout(zero=3), 16 / 32),
        (Layout(fp32_gradients=True), 18),
        (Layout(distributed_optimizer=True), 6 + 12 / 32),
        (Layout(zero=3, offload_optimizer=True), 4 / 32),
        (Layout(zero=1, offload_optimizer=True), 4),
    ],
)
def test_states_by_stage_of_zero(layout: Layout, bytes_per_parameter: float) -> None:
    assert need(SMALL, Job(4, 8, layout)).states == pytest.approx(bytes_per_parameter * SMALL.parameters)


def test_activations_follow_the_formulas_of_the_paper() -> None:
    # arXiv 2205.05198, table 2, for a micro-batch of 2 on TP 8.
    s, b, h, a, t = 2048, 2, 12288, 96, 8
    model = MODELS["175B"]

    def kept(**given: Any) -> float:
        layout = dataclasses.replace(Layout(t, 16), **given)
        return need(model, Job(32, 8, layout, b, 64)).activations / (96 / 16) / 16

    assert kept(recomputation=NONE) == pytest.approx(s * b * h * (10 + 24 / t + 5 * a * s / (h * t)))
    assert kept(recomputation=NONE, sequence_parallel=True) == pytest.approx(s * b * h * (34 + 5 * a * s / h) / t)
    assert kept(recomputation=SELECTIVE, sequence_parallel=True) == pytest.approx(s * b * h * 34 / t)
    assert kept(recomputation=FULL) == pytest.approx(2 * s * b * h)


def test_the_first_stage_holds_at_most_as_many_micro_batches_as_there_are() -> None:
    # With few tokens known, the last stage's output is small, and the first stage needs most.
    layout, model = Layout(1, 8), dataclasses.replace(SMALL, vocabulary=1024)
    many, two = (need(model, Job(1, 8, layout, 1, batch)).activations for batch in (64, 2))
    assert many == pytest.approx(4 * two)


def test_an_offload_moves_bytes_from_the_gpu_to_the_node() -> None:
    model, job = MODELS["39B"], Job(8, 8, Layout(zero=3), 4)
    before = need(model, job)
    after = need(model, dataclasses.replace(job, layout=Layout(zero=3, offload_optimizer=True)))
    assert (before.states - after.states) * 8 == pytest.approx(after.host)
    disks = need(model, dataclasses.replace(job, layout=Layout(zero=3, offload_nvme=True)))
    assert disks.states == after.states
    assert disks.nvme == pytest.approx(after.host)
    assert disks.host == 0
    activations = need(model, dataclasses.replace(job, layout=Layout(zero=3, offload_activations=True)))
    assert activations.activations == 0
    assert activations.host == pytest.approx(8 * before.activations)


def test_gpus_are_placed_on_numa_nodes_and_rails() -> None:
    found = gpu_positions(Job(2, 8, Layout(4)), A100)
    assert [place.tensor_rank for place in found] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [place.numa_node for place in found] == [1, 1, 0, 0, 3, 3, 2, 2]
    assert [place.rail for place in found] == [f"mlx5_ib{gpu}" for gpu in range(8)]
    assert found[4].busid == "000b:00:00.0"
    assert {place.rail for place in gpu_positions(Job(2, 4, Layout()), SIZES["Standard_NC96ads_A100_v4"])} == {""}


def test_stages_of_a_pipeline_are_on_consecutive_nodes() -> None:
    planned = plan(MODELS["39B"], Job(8, 8, Layout(8, 4), 1, 64), A100)
    assert planned.stages == ((0, 1), (2, 3), (4, 5), (6, 7))
    small = plan(SMALL, Job(1, 8, Layout(2, 2), 1, 64), A100)
    assert small.stages == ((0, 0), (0, 0))


def test_an_unknown_peak_gives_no_mfu() -> None:
    planned = plan(SMALL, Job(2, 4, Layout(zero=3)), B300, Options(rate=500))
    assert planned.speed is not None
    assert (planned.speed.mfu, planned.speed.hfu) == (None, None)
    assert "unknown, unknown (the peak of this GPU is unknown)" in as_text(planned)
    in_fp8 = plan(SMALL, Job(2, 8, Layout(zero=3)), A100, Options(rate=100, peak="fp8")).speed
    assert in_fp8 is not None
    assert in_fp8.mfu is None


@pytest.mark.parametrize(
    ("model", "nodes", "size"),
    [
        pytest.param(MODELS["175B"], 32, "Standard_ND96isr_H200_v5", id="another GPU"),
        pytest.param(Model(2, 64, 2, 128), 32, "Standard_ND96amsr_A100_v4", id="another order of magnitude"),
        pytest.param(MODELS["1.7B"], 400, "Standard_ND96amsr_A100_v4", id="another number of nodes"),
    ],
)
def test_without_a_similar_measurement_the_rate_is_unknown(model: Model, nodes: int, size: str) -> None:
    planned = plan(model, Job(nodes, 8, Layout(zero=3, offload_optimizer=True)), SIZES[size], Options(tokens=1e9))
    assert planned.fits
    assert planned.speed is None
    assert "unknown: nothing similar was published" in as_text(planned)


def test_days_and_price_follow_tokens_nodes_and_price() -> None:
    job = Job(32, 8, Layout(zero=3, offload_optimizer=True, offload_activations=True), 32)
    model = MODELS["175B"].with_sequence(512)
    speed = plan(model, job, A100, Options(tokens=300e9, hourly=10.0, currency="EUR")).speed
    assert speed is not None
    assert speed.days == pytest.approx(300e9 / speed.tokens_per_day)
    assert speed.cost == pytest.approx(10.0 * 32 * 24 * (speed.days or 0))
    unknown = plan(model, job, A100, Options(tokens=300e9)).speed
    assert unknown is not None
    assert unknown.cost is None


def test_checkpoints_are_saved_as_often_as_failures_demand() -> None:
    model, options = MODELS["39B"], Options(node_hours=1000, data_bytes=1e12)
    planned = plan(model, Job(16, 8, Layout(zero=3)), A100, options).storage
    assert planned is not None
    amount = 14 * model.parameters
    assert planned.checkpoint_bytes == amount
    assert planned.save_seconds == pytest.approx(amount / 16 / 8e9)
    assert planned.upload_seconds == pytest.approx(amount * 8 / (16 * 24e9))
    assert planned.interval == pytest.approx((2 * (planned.save_seconds or 0) * 1000 * 3600 / 16) ** 0.5)
    assert planned.staging_seconds == pytest.approx(1e12 * 8 / (16 * 24e9))
    rare = plan(model, Job(16, 8, Layout(zero=3)), A100, Options(node_hours=4000)).storage
    assert rare is not None
    assert rare.interval == pytest.approx(2 * (planned.interval or 0))
    assert estimate.lost_part(planned.interval or 0, planned.save_seconds or 0, 16, 1000) == planned.lost


@pytest.mark.parametrize(
    ("layout", "nodes", "copies"),
    [
        (Layout(zero=3), 16, 1),
        (Layout(zero=1), 16, 1),
        (Layout(8, 2, distributed_optimizer=True), 16, 1),
        # Each node has all states of a stage, whatever part of a tensor is on which of its GPUs.
        (Layout(), 16, 16),
        (Layout(8), 16, 16),
        (Layout(8, 2), 16, 8),
        # Several stages are on one node.
        (Layout(1, 4), 2, 1),
    ],
)
def test_replicas_with_all_states_write_copies_of_a_checkpoint(layout: Layout, nodes: int, copies: int) -> None:
    planned = plan(SMALL, Job(nodes, 8, layout, 1, 256), A100)
    assert planned.storage is not None
    assert planned.storage.copies == copies
    assert planned.storage.checkpoint_bytes == 14 * SMALL.parameters * copies
    assert planned.storage.save_seconds == pytest.approx(14 * SMALL.parameters * copies / nodes / 8e9)
    assert (f" in {copies} copies: " in as_text(planned)) == (copies > 1)


def test_offload_to_nvme_has_no_published_rate() -> None:
    planned = plan(MODELS["175B"], Job(48, 8, Layout(zero=3, offload_nvme=True)), A100)
    assert planned.fits
    assert planned.speed is None


def test_checkpoints_are_not_saved_faster_than_they_upload() -> None:
    planned = plan(MODELS["39B"], Job(16, 8, Layout(zero=3)), A100, Options(account_gbps=1.0)).storage
    assert planned is not None
    assert planned.interval == planned.upload_seconds


def test_the_pipeline_idles_less_with_more_micro_batches_and_parts() -> None:
    assert Job(2, 8, Layout(8, 2), 1, 4).bubble == pytest.approx(1 / 4)
    assert Job(2, 8, Layout(8, 2), 1, 16).bubble == pytest.approx(1 / 16)
    assert Job(2, 8, Layout(8, 2, 2), 1, 4).bubble == pytest.approx(1 / 8)
    assert Job(2, 8, Layout(8, 2)).micro_batches == 8


def refusal() -> Plan:
    """Return a plan that does not fit."""
    return plan(MODELS["175B"], Job(2, 8, Layout(zero=3)), A100)


def test_a_refusal_names_what_is_needed_and_what_fits() -> None:
    text = as_text(refusal())
    assert text.startswith("This does not fit.\n  A GPU needs 179.5 GiB (162.6 GiB states, ")
    assert "and has 79.1 GiB.\nThe smallest that fits with this layout: 6 nodes (48 GPUs), 48 samples per step." in text
    assert "No layout fits on 2 nodes" not in text
    assert "A layout that fits on 2 nodes: ZeRO-3, optimizer" in text
    assert "expected rate" not in text


def test_a_batch_that_was_given_is_kept_if_it_divides() -> None:
    fewest = plan(MODELS["175B"], Job(2, 8, Layout(zero=3), 1, 384), A100).fewest
    assert fewest is not None
    assert (fewest.nodes, fewest.batch) == (6, 384)


def test_the_data_of_a_plan_is_complete() -> None:
    for planned in (refusal(), plan(SMALL, Job(4, 8, Layout(2, 2), 1, 64), A100, Options(tokens=1e9))):
        data = json.loads(json.dumps(as_data(planned)))
        assert data["fits"] == planned.fits
        assert (data["speed"] is None) == (planned.speed is None)
        assert (data["fewest"] is None) == planned.fits
        assert data["parameters"] == planned.model.parameters


def test_marketed_memory_is_used_where_nothing_else_is_known_and_said() -> None:
    available = room(B300)
    assert available is not None
    assert (available.gpu, available.is_marketed) == (288 * GB, True)
    assert "Only the marketed memory" in as_text(plan(SMALL, Job(1, 4, Layout(zero=3)), B300))


def test_a_size_without_any_memory_is_not_judged() -> None:
    unknown = dataclasses.replace(B300, gpu_memory_gb=None)
    planned = plan(SMALL, Job(1, 4, Layout(zero=3)), unknown)
    assert planned.fits
    assert any("unknown, so it was not checked" in note for note in planned.notes)
    assert not fits(SMALL, planned.job, unknown)
