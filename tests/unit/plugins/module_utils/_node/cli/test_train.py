# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode train, from its words to its exit status."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe

FILES = str(pathlib.Path(__file__).resolve().parents[6] / "roles/training/files")
A100 = "nd96amsr_A100_v4"


def answer(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the JSON of a command."""
    status = main(["train", *words, "--json"])
    return status, json.loads(capfd.readouterr().out)


def test_a_plan_that_fits_is_good(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--model", "39B", "--nodes", "64", "--vm-size", A100, "--tensor", "8", "--pipeline", "2")
    status, data = answer(capfd, "plan", *words, "--batch", "1536", "--tokens", "300e9")
    assert (status, data["fits"], data["gpus"]) == (GOOD, True, 512)
    assert data["speed"]["rate"] == 138
    assert data["speed"]["days"] == pytest.approx(300e9 / data["speed"]["tokens_per_day"])


def test_a_plan_that_does_not_fit_is_bad(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "plan", "--model", "175B", "--nodes", "1", "--vm-size", A100, "--zero", "3")
    assert (status, data["fits"], data["fewest"]["nodes"]) == (BAD, False, 6)


def test_a_shape_replaces_parts_of_a_recipe(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "gpt-megatron", "--size", "1.7B", "--recipes", FILES, "--vm-size", A100)
    _status, data = answer(capfd, *words)
    assert (data["nodes"], data["global_batch"]) == (4, 512)
    _status, changed = answer(capfd, *words, "--layers", "48", "--nodes", "8", "--offload-optimizer", "--zero", "1")
    assert (changed["nodes"], changed["model"]["layers"], changed["layout"]["offload_optimizer"]) == (8, 48, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "--vm-size", A100), "--layers, --hidden, --heads, --sequence are missing"),
        (("plan", "--vm-size", A100, "--model", "9B"), "--model 9B is not known"),
        (("plan", "--vm-size", A100, "--model", "39B", "--nodes", "0"), "--nodes must be at least 1"),
        (("plan", "--vm-size", A100, "--model", "39B", "--zero", "4"), "--zero must be 0, 1, 2 or 3"),
        (("plan", "--vm-size", A100, "--model", "39B", "--tokens", "0"), "--tokens must be more than 0"),
        (("plan", "--vm-size", A100, "--model", "39B", "--prices", "x"), "--prices needs --region"),
        (("plan", "cosmoflow", "--vm-size", A100, "--zero", "3"), "cosmoflow is no transformer: leave out --zero, or"),
        (("plan", "cosmoflow", "--vm-size", A100, "--node-hours", "9"), "leave out --node-hours, or give --model"),
        (("script", "fsdp"), "give --store, or --shared"),
        (("script", "gpt-megatron", "--size", "175B", "--store", "https://a/b"), "give --shared, and --run with"),
        (("script", "gpt-nvme", "--shared", "--run", "/shared/run"), "on the nodes' own disks: leave out --shared"),
        (("script", "bert-ddp", "--source", "https://a/b"), "--source needs --data"),
        (("script", "bert-ddp", "--data", "/d", "--data-shared"), "--data-shared needs --source"),
        (("script", "bert-ddp", "--launcher", "mpirun", "--image", "x"), "starts no container"),
        (("script", "gpt-ort"), "runs in a container image only"),
        (("script", "bert-ddp", "--hang", "-1"), "--hang must not be negative"),
        (("script", "bert-ddp", "--requeues", "-1"), "--requeues must not be negative"),
        (("script", "bert-ddp", "--save-every", "0"), "--save-every must be at least 1"),
        (("script", "bert-ddp", "--warn", "-1"), "--warn must be from 0 to 65535"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words, "--recipes", FILES]) == USAGE
    assert message in capfd.readouterr().err


def test_an_unknown_size_or_recipe_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "plan", "--model", "39B", "--vm-size", "nd1_v9"]) == UNKNOWN
    assert main(["train", "script", "fsdb", "--recipes", FILES]) == UNKNOWN
    assert "Did you mean fsdp" in capfd.readouterr().err


def price_file(folder: pathlib.Path) -> pathlib.Path:
    """A file with the price of a size."""
    prices = folder / "prices.json"
    size = {"region": "westeurope", "size": A100, "hourly": 30.0}
    prices.write_text(json.dumps({"schema": 1, "currency": "USD", "date": "2026-11-20", "sizes": [size]}))
    return prices


def test_a_price_file_gives_a_list_price(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    prices = price_file(tmp_path)
    words = ("plan", "--model", "39B", "--nodes", "64", "--vm-size", A100, "--tensor", "8", "--pipeline", "2")
    given = ("--tokens", "300e9", "--prices", str(prices), "--region", "WestEurope")
    _status, data = answer(capfd, *words, *given)
    assert data["speed"]["cost"] == pytest.approx(30.0 * 64 * 24 * data["speed"]["days"])
    assert data["speed"]["currency"] == "USD (prices of 2026-11-20)"
    status, data = answer(capfd, *words, *given, "--spot")
    assert (status, "no price of" in data["error"]) == (UNKNOWN, True)


def test_a_recipe_that_is_no_transformer_is_planned_from_its_published_result(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "cosmoflow", "--size", "v0.7", "--recipes", FILES, "--vm-size", "nd40rs_v2")
    status, data = answer(capfd, *words)
    assert (status, data["nodes"], data["gpus"], data["samples"], data["cost"]) == (GOOD, 4, 32, 64, None)
    # 64 samples of 16.8 MB at 32 times 191 MB/s.
    assert data["step"] == pytest.approx(64 * 128**3 * 8 / (32 * 191e6))
    assert data["seconds"] == pytest.approx(245760 * data["step"])
    assert data["staging"] == pytest.approx(5500e9 * 8 / (4 * 24e9))
    _status, wide = answer(capfd, *words, "--nodes", "8", "--node-gbps", "5.5", "--account-gbps", "22")
    assert (wide["samples"], wide["step"]) == (128, pytest.approx(data["step"]))
    assert wide["staging"] == pytest.approx(5500e9 * 8 / 22e9)
    prices = price_file(tmp_path)
    given = ("plan", "cosmoflow", "--size", "v0.7", "--recipes", FILES, "--vm-size", A100)
    assert main(["train", *given, "--prices", str(prices), "--region", "westeurope"]) == GOOD
    shown = capfd.readouterr().out
    published = "an epoch of 327,680 samples in 15 minutes on 32 V100, 6.1 GB/s; CosmoFlow on BeeOND"
    assert f"expected    191 MB/s of data per GPU ({published}" in shown
    assert "list price  1,439 USD (prices of 2026-11-20)" in shown
    assert "duration    12 h" in shown


def test_without_a_published_rate_a_plan_has_no_duration(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "resnet-scaling", "--recipes", FILES, "--vm-size", "nd40rs_v2")
    _status, data = answer(capfd, *words, "--size", "large")
    assert (data["published"]["value"], data["step"], data["seconds"]) == (90, None, None)
    assert main(["train", *words, "--size", "tiny"]) == GOOD
    assert "expected  unknown: nothing was published about this size" in capfd.readouterr().out
    _status, bert = answer(capfd, "plan", "bert-ddp", "--size", "large", "--recipes", FILES, "--vm-size", "nd40rs_v2")
    assert bert["published"]["unit"] == "samples/s per GPU"


def test_a_published_number_of_samples_gives_the_rate_of_a_transformer_on_the_same_vm_size(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ("plan", "bert-ddp", "--size", "large", "--recipes", FILES)
    _status, data = answer(capfd, *words, "--vm-size", "nd40rs_v2")
    # 1024 samples at 28 per second on each of 128 GPUs.
    assert data["speed"]["step"] == pytest.approx(1024 / (28 * 128))
    assert data["speed"]["source"].startswith("28 samples/s per GPU (sequences on V100; ")
    assert 0.2 < data["speed"]["mfu"] < 0.3
    main(["train", *words, "--vm-size", "nd40rs_v2"])
    assert capfd.readouterr().out.count("28 samples/s per GPU") == 1
    main(["train", *words, "--vm-size", A100])
    assert "published: 28 samples/s per GPU" in capfd.readouterr().out
    assert answer(capfd, *words, "--vm-size", "nd40rs_v2", "--tflops", "50")[1]["speed"]["source"] == "given"
    # Nobody measured another model or another GPU.
    assert answer(capfd, *words, "--vm-size", "nd40rs_v2", "--layers", "12")[1]["speed"] is None
    assert answer(capfd, *words, "--vm-size", A100)[1]["speed"] is None


def test_list_shows_where_each_size_ran(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "list", "--recipes", FILES)
    assert status == GOOD
    assert {recipe["name"] for recipe in data["recipes"]} >= {"fsdp", "gpt-deepspeed"}
    assert all(size["verified"] for recipe in data["recipes"] for size in recipe["sizes"].values())


def test_a_script_on_cpus_needs_no_vm_size(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "script", "bert-ddp", "--recipes", FILES, "--steps", "7", "--nodes", "3")
    assert status == GOOD
    assert "#SBATCH --nodes=3" in data["script"]
    # Another job must not find the checkpoints of this one.
    assert 'run="/scratch/$USER/bert-ddp-tiny-$SLURM_JOB_ID"' in data["script"]
    assert "--steps=7" in data["script"]


def test_a_script_saves_as_often_as_the_plan_says_and_requeues_as_often_as_it_is_told(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def script(*words: str) -> str:
        status, data = answer(capfd, "script", *words, "--recipes", FILES)
        assert status == GOOD
        return " ".join(data["script"].replace("\\\n", " ").split())

    large = ("gpt-megatron", "--size", "39B", "--shared", "--run", "/shared/run")
    _status, made = answer(capfd, "plan", *large[:3], "--recipes", FILES, "--vm-size", A100)
    steps = round(made["storage"]["interval"] / made["speed"]["step"])
    assert steps > 1
    assert f" --save-every={steps} " in script(*large, "--vm-size", A100)
    more = script(*large, "--vm-size", A100, "--nodes", "128")
    assert f" --save-every={steps} " not in more, "more nodes fail more often"
    given = script(*large, "--vm-size", A100, "--save-every", "7", "--requeues", "9")
    assert " --save-every=7 " in given
    assert '--run "$run" --requeues 9 --status "$@"' in given
    # Without a published rate there is no interval, and without a plan neither.
    for words in (("bert-ddp", "--size", "large"), ("bert-ddp", "--size", "tiny"), ("cosmoflow", "--size", "v0.7")):
        size = read_recipe(FILES, words[0]).size(words[2])
        plain = script(*words)
        assert f" --save-every={size.save_every} " in plain
        assert "--requeues" not in plain


def test_image_and_sums_of_a_recipe_are_used_unless_others_are_given(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = f"@sha256:{'0' * 64}"
    shutil.copytree(f"{FILES}/recipes/bert-ddp", tmp_path / "recipes/bert-ddp")
    path = tmp_path / "recipes/bert-ddp/recipe.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "image": f"x{digest}", "data_sums": "sums"}))
    sums = f"--sums {tmp_path}/recipes/bert-ddp/sums"

    def script(*words: str) -> str:
        status, data = answer(capfd, "script", "bert-ddp", "--recipes", str(tmp_path), *words)
        assert status == GOOD
        return " ".join(data["script"].replace("\\\n", " ").split())

    assert f"--container-image=x{digest}" in script()
    assert "--sums" not in script()
    assert sums in script("--data", "/d")
    assert f"--container-image=y{digest}" in script("--image", f"y{digest}")
    assert "--sums /s" in script("--data", "/d", "--sums", "/s")
    assert "--container-image" not in script("--python", "/env/python")


def test_env_needs_a_job(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    assert main(["train", "env"]) == UNKNOWN
    captured = capfd.readouterr()
    assert captured.out == "", "what is not understood must not be evaluated"
    assert "not a Slurm job" in captured.err
