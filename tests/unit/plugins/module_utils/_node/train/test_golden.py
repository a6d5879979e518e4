# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The planner reproduces published figures: papers, other projects' results, and the scripts that cannot run.

Beside each row, one input is changed, and the result must follow the formula: a table of answers would not.
"""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize
from ansible_collections.hpcai.azure.plugins.module_utils._node.train import estimate
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.catalog import MEASURED, MODELS, expected
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.layout import Job, Layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.memory import RESERVE, need
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.model import FULL, NONE, SELECTIVE, Model
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan import Options, fits, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.published import other_plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe

A100 = SIZES["Standard_ND96amsr_A100_v4"]
H100 = SIZES["Standard_ND96isr_H100_v5"]
OFFLOAD = Layout(zero=3, offload_optimizer=True, offload_activations=True)
TOLERANCE = 0.015
GIB = 2**30
REPOSITORY = pathlib.Path(__file__).resolve().parents[6]

# arXiv 2104.04473, table 1: name, layers, hidden, heads, t, p, B, GPUs; parameters (10^9), d, TFLOP/s, % of the peak.
SC21 = [
    ("1.7B", 24, 2304, 24, 1, 1, 512, 32, 1.7, 32, 137, 44),
    ("3.6B", 30, 3072, 32, 2, 1, 512, 64, 3.6, 32, 138, 44),
    ("7.5B", 36, 4096, 32, 4, 1, 512, 128, 7.5, 32, 142, 46),
    ("18B", 40, 6144, 48, 8, 1, 1024, 256, 18.4, 32, 135, 43),
    ("39B", 48, 8192, 64, 8, 2, 1536, 512, 39.1, 32, 138, 44),
    ("76B", 60, 10240, 80, 8, 4, 1792, 1024, 76.1, 32, 140, 45),
    ("145B", 80, 12288, 96, 8, 8, 2304, 1536, 145.6, 24, 148, 47),
    ("310B", 96, 16384, 128, 8, 16, 2160, 1920, 310.1, 15, 155, 50),
    ("530B", 105, 20480, 128, 8, 35, 2520, 2520, 529.6, 9, 163, 52),
    ("1T", 128, 25600, 160, 8, 64, 3072, 3072, 1008.0, 6, 163, 52),
]


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads", "t", "p", "batch", "gpus", "billions", "d", "rate", "percent"), SC21
)
def test_sc21_table_1(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    t: int,
    p: int,
    batch: int,
    gpus: int,
    billions: float,
    d: int,
    rate: float,
    percent: int,
) -> None:
    model = Model(layers, hidden, heads, 2048, 51200)
    assert MODELS[name] == model
    assert model.parameters / 1e9 == pytest.approx(billions, rel=TOLERANCE, abs=0.06)
    job = Job(gpus // 8, 8, Layout(tensor=t, pipeline=p), 1, batch)
    assert (job.gpus, job.replicas) == (gpus, d)
    planned = plan(model, job, A100)
    assert planned.fits, planned.problems
    step = estimate.step_seconds(model, job, rate, FULL)
    mfu, hfu = estimate.utilization(model, job, step, (A100.gpu_tflops or {})["bf16"])
    assert hfu == pytest.approx(percent / 100, abs=0.0055)
    assert mfu is not None
    assert mfu < (hfu or 0)
    found = expected(model, job, A100)
    assert found is not None
    assert found.tflops == rate
    halved = plan(model, dataclasses.replace(job, batch=2 * batch), A100).speed
    assert planned.speed is not None
    assert halved is not None
    assert halved.step == pytest.approx(2 * planned.speed.step)


@pytest.mark.parametrize(("name", "layers", "hidden"), [row[:3] for row in SC21])
def test_parameters_follow_the_formula_for_other_shapes(name: str, layers: int, hidden: int) -> None:
    h, s, v, depth = hidden + 256, 1024, 50257, layers + 3
    changed = Model(depth, h, 8, s, v)
    formula = 12 * depth * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * depth * h))
    assert changed.parameters == pytest.approx(formula, rel=1e-9), name
    assert changed.parameters > MODELS[name].parameters


@pytest.mark.parametrize("layers", [12, 96, 105])
def test_operations_follow_the_formulas_of_the_papers(layers: int) -> None:
    batch, h, s, v = 1536, 12288, 2048, 51200
    model = Model(layers, h, 96, s, v)
    unit = batch * s * layers * h**2
    assert model.flops(batch, FULL) == pytest.approx(96 * unit * (1 + s / (6 * h) + v / (16 * layers * h)), rel=1e-9)
    assert model.flops(batch, NONE) == pytest.approx(72 * unit * (1 + s / (6 * h) + v / (12 * layers * h)), rel=1e-9)
    # Selective recomputation repeats the attention only.
    assert model.flops(batch, SELECTIVE) - model.flops(batch, NONE) == pytest.approx(24 * unit * s / (6 * h), rel=1e-9)


# arXiv 2104.04473, table 2: model, GPUs, TFLOP/s, days for 300 B tokens.
TABLE_2 = [
    *(("175B", *row) for row in ((384, 153, 84.7), (768, 149, 43.5), (1536, 141, 23.0))),
    *(("175B", *row) for row in ((384, 144, 90.0), (768, 88, 73.7), (1536, 44, 73.7))),
    *(("530B", *row) for row in ((560, 171, 156.1), (1120, 167, 79.9), (2240, 159, 42.0))),
    *(("530B", *row) for row in ((640, 138, 169.2), (1120, 98, 136.2), (2240, 48, 139.0))),
]
PAPER = [84, 43, 23, 90, 74, 74, 156, 80, 42, 169, 137, 140]


@pytest.mark.parametrize(("row", "paper"), list(zip(TABLE_2, PAPER, strict=True)))
def test_sc21_table_2(row: tuple[str, int, float, float], paper: int) -> None:
    name, gpus, rate, calculated = row
    model = MODELS[name]
    found = estimate.days(model, 300e9, gpus, rate)
    assert found == pytest.approx(paper, abs=1.0)
    assert found == pytest.approx(calculated, abs=0.06)
    assert estimate.days(model, 450e9, gpus, rate) == pytest.approx(1.5 * found)
    assert estimate.days(model, 300e9, 3 * gpus, rate / 2) == pytest.approx(found * 2 / 3)


@pytest.mark.parametrize(("gpus", "seconds", "rate"), [(2240, 60.1, 125.7), (2800, 50.2, 120.4), (3360, 44.4, 113.5)])
def test_mt_nlg(gpus: int, seconds: float, rate: float) -> None:
    job = Job(gpus // 8, 8, Layout(8, 35), 1, 1920)
    model = MODELS["530B"]
    assert estimate.rate_of(model, job, seconds, FULL) == pytest.approx(rate, rel=0.002)
    assert estimate.rate_of(model, job, 2 * seconds, FULL) == pytest.approx(rate / 2, rel=0.002)
    assert estimate.rate_of(model.with_sequence(4096), job, seconds, FULL) > 2 * rate


# Seed 003's four peaks: model, nodes, micro-batch, sequence; step (s), tokens per day (10^9), HFU and MFU (%).
SEED_003 = [
    ("175B", 32, 32, 512, 112.6, 3.22, 65.5, 49.2),
    ("530B", 128, 8, 1024, 204.1, 3.55, 54.9, 41.2),
    ("1T", 128, 8, 1024, 402.0, 1.80, 53.0, 39.8),
    ("2T", 128, 8, 1024, 865.6, 0.84, 50.3, 37.7),
]


@pytest.mark.parametrize(("name", "nodes", "b", "s", "step", "tokens", "hfu", "mfu"), SEED_003)
def test_seed_003_rates(
    name: str, nodes: int, b: int, s: int, step: float, tokens: float, hfu: float, mfu: float
) -> None:
    model = MODELS[name].with_sequence(s)
    planned = plan(model, Job(nodes, 8, OFFLOAD, b), A100)
    assert planned.fits, planned.problems
    speed = planned.speed
    assert speed is not None
    assert "DeepSpeed team" in speed.source
    assert speed.step == pytest.approx(step, rel=TOLERANCE)
    assert speed.tokens_per_day == pytest.approx(tokens * 1e9, rel=TOLERANCE)
    assert (100 * (speed.hfu or 0), 100 * (speed.mfu or 0)) == pytest.approx((hfu, mfu), abs=0.1)
    # Half the micro-batch at the same rate: half the time, the same tokens a day.
    half = plan(model, Job(nodes, 8, OFFLOAD, b // 2), A100, Options(rate=speed.rate)).speed
    assert half is not None
    assert half.step == pytest.approx(speed.step / 2)
    assert half.tokens_per_day == pytest.approx(speed.tokens_per_day)


def test_seed_003_2t_needs_the_offload_of_its_activations() -> None:
    model, job = MODELS["2T"], Job(128, 8, Layout(zero=3), 8)
    assert need(model, job).activations == pytest.approx(80.0 * GIB, rel=0.001)
    refused = plan(model, job, A100)
    assert not refused.fits
    assert "80.0 GiB activations" in refused.problems[0]
    fitting = plan(model, dataclasses.replace(job, layout=OFFLOAD), A100)
    assert fitting.fits
    assert fitting.needed is not None
    # 12 bytes per parameter of eight GPUs, and the inputs of 160 layers of eight GPUs.
    assert fitting.needed.host == pytest.approx(193e9 + 640 * GIB, rel=0.002)
    assert (A100.memory_mib or 0) / 1024 == pytest.approx(1772, abs=1)
    smaller = dataclasses.replace(A100, memory_mib=900 * 1024)
    assert not fits(model, dataclasses.replace(job, layout=OFFLOAD), smaller)
    assert need(model, dataclasses.replace(job, micro_batch=4)).activations == pytest.approx(40.0 * GIB, rel=0.001)


def test_seed_003_1t_on_512_gpus_needs_offload() -> None:
    model, job = MODELS["1T"].with_sequence(1024), Job(64, 8, Layout(zero=3), 8)
    needed = need(model, job)
    assert needed.states == pytest.approx(31.5e9, rel=0.001)
    assert needed.activations == pytest.approx(50.0 * GIB, rel=0.001)
    assert not fits(model, job, A100)
    assert need(model, dataclasses.replace(job, nodes=128)).states == pytest.approx(15.75e9, rel=0.001)


def refused(model: Model, job: Job, size: VmSize = A100) -> Job:
    """Return the smallest that fits in place of a job that does not, checked to be the smallest."""
    found = plan(model, job, size)
    assert not found.fits
    assert found.fewest is not None
    assert fits(model, found.fewest, size)
    below = [dataclasses.replace(found.fewest, nodes=nodes) for nodes in range(1, found.fewest.nodes)]
    assert not any(fits(model, one, size) for one in below)
    if found.other is not None:
        assert found.other.nodes == job.nodes
        assert fits(model, found.other, size)
    return found.fewest


def test_azures_175b_script_asks_for_349_gb_on_a_gpu_of_80() -> None:
    job = Job(1, 8, Layout(zero=3))
    assert need(MODELS["175B"], job).states == pytest.approx(349e9, rel=0.002)
    fewest = refused(MODELS["175B"], job)
    assert fewest.nodes > 4
    # GPUs of 141 GB need fewer nodes, GPUs of 40 GB more.
    assert refused(MODELS["175B"], job, SIZES["Standard_ND96isr_H200_v5"]).nodes < fewest.nodes
    assert refused(MODELS["175B"], job, SIZES["Standard_ND96asr_v4"]).nodes > fewest.nodes


def test_azures_1t_script_asks_for_252_gb_of_weights_and_12_tb_of_host_memory() -> None:
    job = Job(1, 8, Layout(zero=3, offload_optimizer=True))
    needed = need(MODELS["1T"], job)
    assert needed.states / 2 == pytest.approx(252e9, rel=0.002)
    assert needed.host == pytest.approx(12.1e12, rel=0.002)
    assert len(plan(MODELS["1T"], job, A100).problems) == 2
    assert refused(MODELS["1T"], job).nodes > 7
    assert need(MODELS["1T"], dataclasses.replace(job, nodes=2)).host == pytest.approx(6.05e12, rel=0.002)


def test_azures_megatron_script_needs_128_gpus() -> None:
    job = Job(8, 8, Layout(8, 16), 1, 1536)
    assert plan(MODELS["175B"], job, A100).problems == ("TP 8 times PP 16 needs a multiple of 128 GPUs, not 64.",)
    assert refused(MODELS["175B"], job).nodes == 16
    assert refused(MODELS["175B"], dataclasses.replace(job, layout=Layout(8, 12))).nodes == 12


@pytest.mark.parametrize(
    ("label", "model", "parameters"),
    [
        ("375M", Model(12, 512, 8, 1024, 50257), 65e6),
        ("857M", Model(24, 1024, 16, 1024, 50257), 357e6),
        ("39B", Model(36, 4096, 32, 2048, 51200), 7.47e9),
        ("103B", Model(80, 12288, 96, 2048, 51200), 145.6e9),
    ],
)
def test_sizes_that_others_mislabelled(label: str, model: Model, parameters: float) -> None:
    assert model.parameters == pytest.approx(parameters, rel=TOLERANCE), label
    deeper = dataclasses.replace(model, layers=2 * model.layers)
    assert deeper.parameters == 2 * model.parameters - model.embedding


def test_operations_of_a_gpt_3_sample() -> None:
    # gpu-recipes, src/utils/training_metrics/src/data_defs.py has 2.2e15.
    assert MODELS["175B"].flops(1, NONE) == pytest.approx(2.205e15, rel=0.001)
    assert MODELS["175B"].flops(3, NONE) == pytest.approx(6.615e15, rel=0.001)


@pytest.mark.parametrize(("tokens", "mfu"), [(5762, 33.7), (6667, 39.0)])
def test_torchtitan_llama_8b(tokens: int, mfu: float) -> None:
    model, job = MODELS["llama-8B"], Job(1, 8, Layout(zero=3, recomputation=SELECTIVE), 2)
    step = job.global_batch * model.sequence / (tokens * job.gpus)
    found, _hfu = estimate.utilization(model, job, step, (H100.gpu_tflops or {})["bf16"])
    assert 100 * (found or 0) == pytest.approx(mfu, abs=0.05)
    faster, _hfu = estimate.utilization(model, job, step / 1.5, (H100.gpu_tflops or {})["bf16"])
    assert faster == pytest.approx(1.5 * (found or 0))


@pytest.mark.parametrize(
    ("model", "published", "tolerance"),
    [
        # Azure's README of Megatron-LM: 2.3 TiB.
        pytest.param(MODELS["175B"], 2.3 * 2**40, 0.05, id="175B"),
        # BLOOM: 70 layers, 14336 hidden, 250,880 tokens known; 2.3 TB (stas00, fault-tolerance).
        pytest.param(Model(70, 14336, 112, 2048, 250880), 2.3e12, 0.08, id="bloom"),
    ],
)
def test_checkpoints(model: Model, published: float, tolerance: float) -> None:
    assert estimate.checkpoint_bytes(model) == pytest.approx(published, rel=tolerance)
    assert estimate.checkpoint_bytes(model) == 14 * model.parameters


def test_seed_002_cosmoflow() -> None:
    # 262,144 and 65,536 samples of 128^3 cells with four redshifts of two bytes.
    amount = (262144 + 65536) * 128**3 * 4 * 2
    assert amount == pytest.approx(5.50e12, rel=0.001)
    assert estimate.cost(26.438, 4, 11.5) == pytest.approx(1216, abs=0.5)
    assert estimate.cost(26.438, 4, 60) == pytest.approx(6345, abs=0.5)
    assert estimate.transfer_seconds(5.1e12, 4, 5.5) / 60 == pytest.approx(30.9, abs=0.05)
    assert estimate.transfer_seconds(1.1e12, 4, 5.5) / 60 == pytest.approx(6.7, abs=0.05)
    # From ten nodes on, the account's 50 Gb/s are the limit.
    assert estimate.transfer_seconds(5.1e12, 16, 5.5, 50) == pytest.approx(5.1e12 * 8 / 50e9)
    assert estimate.transfer_seconds(5.1e12, 8, 5.5, 50) == pytest.approx(5.1e12 * 8 / 44e9)
    # The recipe states the same amount, an epoch of it in 15 minutes, and 48 epochs on 32 GPUs.
    recipe = read_recipe(str(REPOSITORY / "roles/training/files"), "cosmoflow")
    size = recipe.size("v0.7")
    assert (size.data_gb or 0) * 1e9 == pytest.approx(amount, rel=0.001)
    assert size.expected is not None
    assert size.expected.value == pytest.approx(amount / 900 / 32 / 1e6, abs=0.5)
    assert "6.1 GB/s" in size.expected.conditions
    assert amount / 900 / 1e9 == pytest.approx(6.1, abs=0.05)
    assert size.sample_bytes == 128**3 * 4 * 2
    made = other_plan(recipe, "v0.7", 4, 8, SIZES["Standard_ND40rs_v2"], Options(hourly=26.438, currency="USD"))
    # 48 epochs of 15 minutes; the article says 11.5 hours and about $1,200.
    assert (made.seconds or 0) / 3600 == pytest.approx(12, rel=0.002)
    assert made.cost == pytest.approx(26.438 * 4 * 12, rel=0.002)
    assert size.steps == 48 * (262144 + 65536) / (8 * size.nodes * size.micro_batch)


@pytest.mark.parametrize("one", [one for one in MEASURED if one.model in ("175B", "530B", "1T", "2T")])
def test_each_published_rate_is_below_the_peak(one: object) -> None:
    rate = getattr(one, "tflops", 0)
    assert 0 < rate < 312


PEAKS = [
    (dataclasses.replace(MODELS["llama-8B"], layers=8), Layout(zero=3), 1, 52.76),
    (dataclasses.replace(MODELS["llama-8B"], layers=4, sequence=4096), Layout(zero=3, recomputation=NONE), 1, 36.20),
    (MODELS["1.7B"], Layout(fp32_gradients=True), 4, 35.92),
]
"""Peaks of allocated memory in GiB, measured on an H200 with PyTorch 2.11.0: the trainers of fsdp, fsdp and
gpt-megatron, with one GPU each."""


@pytest.mark.parametrize(("model", "layout", "micro_batch", "peak"), PEAKS)
def test_peaks_of_a_real_gpu(model: Model, layout: Layout, micro_batch: int, peak: float) -> None:
    needed = need(model, Job(1, 1, layout, micro_batch)).gpu
    assert (needed - RESERVE) / GIB == pytest.approx(peak, rel=0.03)
    assert needed / GIB > peak
    smaller = dataclasses.replace(model, vocabulary=model.vocabulary // 2)
    logits = model.sequence * micro_batch * model.vocabulary * 10
    embedding = (2 if model.gated else 1) * model.vocabulary * model.hidden * (18 if layout.fp32_gradients else 16)
    assert needed - need(smaller, Job(1, 1, layout, micro_batch)).gpu == pytest.approx((logits + embedding) / 2)


def calculated() -> dict[str, list[str]]:
    """Return the planner's numbers in the table of docs/evidence.md, by the first cell of their row."""
    found: dict[str, list[str]] = {"parameters (10^9)": [], "share of the peak (%)": []}
    for name, _l, _h, _a, t, p, batch, gpus, _billions, _d, rate, _percent in SC21:
        model, job = MODELS[name], Job(gpus // 8, 8, Layout(tensor=t, pipeline=p), 1, batch)
        _mfu, hfu = estimate.utilization(model, job, estimate.step_seconds(model, job, rate, FULL), 312)
        found["parameters (10^9)"].append(f"{model.parameters / 1e9:.1f}")
        found["share of the peak (%)"].append(f"{100 * (hfu or 0):.1f}")
    found["days for 300 B tokens"] = [
        f"{estimate.days(MODELS[name], 300e9, gpus, rate):.1f}" for name, gpus, rate, _days in TABLE_2
    ]
    steps = ((2240, 60.1), (2800, 50.2), (3360, 44.4))
    rates = [estimate.rate_of(MODELS["530B"], Job(gpus // 8, 8, Layout(8, 35), 1, 1920), s, FULL) for gpus, s in steps]
    found["TFLOP/s of a step"] = [f"{rate:.1f}" for rate in rates]
    plans = [
        plan(MODELS[name].with_sequence(s), Job(nodes, 8, OFFLOAD, b), A100) for name, nodes, b, s, *_r in SEED_003
    ]
    found["step at the published rates (s)"] = [f"{one.speed.step:.1f}" for one in plans if one.speed]
    found["activations of 2T, micro-batch 8 (GiB)"] = [
        f"{need(MODELS['2T'], Job(128, 8, Layout(zero=3), 8)).activations / GIB:.1f}"
    ]
    one_node = (
        need(MODELS["175B"], Job(1, 8, Layout(zero=3))),
        need(MODELS["1T"], Job(1, 8, Layout(zero=3, offload_optimizer=True))),
    )
    found["states of a GPU (GB)"] = [f"{one_node[0].states / 1e9:.0f}", f"{one_node[1].states / 2e9:.0f}"]
    shapes = [(12, 512, 8, 1024, 50257), (24, 1024, 16, 1024, 50257), (36, 4096, 32, 2048, 51200)]
    labels = [Model(*shape) for shape in shapes] + [MODELS["145B"]]
    found["parameters behind a label (10^9)"] = [f"{one.parameters / 1e9:.3g}" for one in labels]
    found["operations of a sample (10^15)"] = [f"{MODELS['175B'].flops(1, NONE) / 1e15:.1f}"]
    job = Job(1, 8, Layout(zero=3, recomputation=SELECTIVE), 2)
    tokens = job.global_batch * 8192 / 8
    used = [estimate.utilization(MODELS["llama-8B"], job, tokens / rate, 989) for rate in (5762, 6667)]
    found["MFU (%)"] = [f"{100 * (mfu or 0):.1f}" for mfu, _hfu in used]
    bloom = Model(70, 14336, 112, 2048, 250880)
    sizes = estimate.checkpoint_bytes(MODELS["175B"]) / 2**40, estimate.checkpoint_bytes(bloom) / 1e12
    found["checkpoint (TiB, TB)"] = [f"{size:.2f}" for size in sizes]
    staged = [estimate.transfer_seconds(amount, 4, 5.5) / 60 for amount in (5.1e12, 1.1e12)]
    found["price ($), staging (min)"] = [f"{estimate.cost(26.438, 4, 11.5):.0f}", *(f"{one:.1f}" for one in staged)]
    peaks = [need(model, Job(1, 1, layout, b)).gpu - RESERVE for model, layout, b, _peak in PEAKS]
    found["peak of a GPU without the reserve (GiB)"] = [f"{one / GIB:.1f}" for one in peaks]
    return found


def test_the_table_in_the_evidence_has_the_planners_numbers() -> None:
    text = (REPOSITORY / "docs/evidence.md").read_text(encoding="utf-8")
    table = text.partition("## Golden numbers of the training planner")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    assert {name: cells.split(" ") for name, _source, _published, cells in rows[2:]} == calculated()
    assert all(source and published for _name, source, published, _cells in rows)
