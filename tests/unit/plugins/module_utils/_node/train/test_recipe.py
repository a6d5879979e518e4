# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recipes and their scripts: what is shipped is valid and plannable, and mistakes are named in one line."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import Malformed
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.layout import Job
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import UnknownRecipe, names, read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.script import (
    MPIRUN,
    ScriptOptions,
    render,
    trainer_arguments,
)

FILES = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files"
RECIPES = names(str(FILES))
ALL = [(name, size) for name in RECIPES for size in read_recipe(str(FILES), name).sizes]


def test_the_recipes_of_the_documents_are_there() -> None:
    known = {"bert-ddp", "cosmoflow", "fsdp", "gpt-deepspeed", "gpt-megatron", "gpt-nvme", "gpt-ort", "resnet-scaling"}
    # What users run in place of gpt-ort, without its image.
    assert set(RECIPES) == {*known, "gpt-compile"}


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_has_a_trainer_and_a_tiny_size_for_two_nodes_without_gpus(name: str) -> None:
    recipe = read_recipe(str(FILES), name)
    assert (FILES / "trainers" / recipe.trainer).is_file()
    tiny = recipe.size("tiny")
    assert (tiny.nodes, tiny.device, tiny.ranks_per_node) == (2, "cpu", 1)
    assert tiny.steps > tiny.save_every, "a resumed training must have something left to do"


@pytest.mark.parametrize(("name", "size"), ALL)
def test_each_size_with_gpus_fits_on_its_nodes(name: str, size: str) -> None:
    one = read_recipe(str(FILES), name).size(size)
    if one.model is None or one.device == "cpu":
        return
    vm_size = SIZES[one.vm_size]
    job = Job(one.nodes, vm_size.gpu_count or 0, one.layout, one.micro_batch, one.batch)
    assert plan(one.model, job, vm_size).problems == ()


def options(**given: Any) -> ScriptOptions:
    """Return the options of a script."""
    return ScriptOptions(**{"size": "tiny", "nodes": 2, "gpus": 0, "ranks": 1, "run": "/scratch/$USER/x", **given})


@pytest.mark.parametrize(("name", "size"), ALL)
def test_each_script_is_valid_for_bash(name: str, size: str) -> None:
    recipe = read_recipe(str(FILES), name)
    made = options(size=size, store="https://a.blob.core.windows.net/c/x", data="/scratch/d", source="https://a/c/d")
    text = render(recipe, made)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "ssh" not in text
    assert "c10d" not in text
    assert "--open-mode=append" in text
    assert "--kill-on-bad-exit=1" in text
    order = ["train preflight", "stage run", "checkpoint restore", "checkpoint watch", "--kill-on-bad-exit=1", "--once"]
    positions = [text.index(word) for word in order]
    assert positions == sorted(positions)
    assert text.rstrip().endswith('finish "$status"')


def test_a_script_passes_the_warning_before_the_time_limit_to_the_training() -> None:
    text = render(read_recipe(str(FILES), "fsdp"), options(warn_s=120, time="1:00:00", partition="gpu"))
    assert "#SBATCH --signal=B:USR1@120" in text
    assert "#SBATCH --time=1:00:00" in text
    assert "#SBATCH --partition=gpu" in text
    assert 'trap \'touch "$job/near-limit"; [ -z "$running" ] || kill -USR1 "$running"\' USR1' in text


def test_a_watchdog_ends_a_training_that_hangs() -> None:
    recipe = read_recipe(str(FILES), "bert-ddp")
    plain = " ".join(render(recipe, options(hang_s=90)).replace("\\\n", " ").split())
    watch = 'hpcnode recover watch --file "$job/progress" --limit 90 --settle 60'
    assert f'"${{each_node[@]}}" {watch} --checkpoints "$run" & watchdog=$!' in plain
    assert plain.index(watch) < plain.index("--kill-on-bad-exit=1") < plain.index('kill -TERM "$watchdog"')
    in_store = render(recipe, options(hang_s=90, store="https://a.blob.core.windows.net/c/x"))
    assert "--checkpoints" not in in_store
    assert "recover watch" not in render(recipe, options(hang_s=0))


def test_only_the_size_changes_between_two_scripts_of_a_recipe() -> None:
    recipe = read_recipe(str(FILES), "gpt-megatron")
    tiny, large = (
        render(recipe, options(size=size, gpus=gpus, ranks=ranks)).replace(size, "SIZE").splitlines()
        for size, gpus, ranks in (("tiny", 0, 1), ("1.7B", 8, 8))
    )
    commands = [line.split()[:1] for line in tiny if line and not line.startswith(("#", " "))]
    assert commands == [line.split()[:1] for line in large if line and not line.startswith(("#", " "))]


def test_deepspeed_gets_the_file_that_names_its_newest_checkpoint() -> None:
    text = render(read_recipe(str(FILES), "gpt-deepspeed"), options(store="https://a.blob.core.windows.net/c/x"))
    assert "--latest-file latest" in text


def test_signed_checkpoints_are_required_and_the_job_is_archived_before_it_is_requeued() -> None:
    store = "https://a.blob.core.windows.net/c/x"
    made = options(store=store, signed=True, data="/d", source="https://a/c/d", sums="/s/sums")
    text = render(read_recipe(str(FILES), "bert-ddp"), made)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    plain = " ".join(text.replace("\\\n", " ").split())
    # Each node saves everything.
    assert 'checkpoint restore --to "$run" --any-part --signed' in plain
    assert plain.count('--lineage "$job/lineage.json" --sign') == 2
    assert plain.count("--sums /s/sums") == 2
    assert text.index("trap '' TERM") < text.index("checkpoint archive") < text.index("hpcnode train end")
    unsigned = render(read_recipe(str(FILES), "bert-ddp"), options(store=store))
    assert "--sign" not in unsigned.replace("--signal", "")


def test_data_are_staged_completely_to_each_nodes_disks_and_in_shares_to_a_shared_folder() -> None:
    recipe = read_recipe(str(FILES), "cosmoflow")
    for shared, words in ((False, "--target /d --all &"), (True, "--target /d &")):
        made = options(data="/d", source="https://a/c/d", data_shared=shared)
        plain = " ".join(render(recipe, made).replace("\\\n", " ").split())
        assert f"hpcnode stage run --source https://a/c/d {words}" in plain
        assert "--staged" in plain
    assert "--staged" not in render(recipe, options(data="/d"))


def test_mpirun_starts_ranks_without_ssh_and_without_binding() -> None:
    text = render(read_recipe(str(FILES), "bert-ddp"), options(launcher=MPIRUN, ranks=8))
    assert 'mpirun -np "$((SLURM_JOB_NUM_NODES * 8))" --map-by ppr:8:node --bind-to none' in text
    assert "srun --ntasks-per-node=8" not in text
    words = launched(text, "mpirun", {"HPCAI_CPU_MASKS": "f,f0"})
    assert words[words.index("HPCAI_CPU_MASKS") - 1] == "-x", "the trainer binds its rank with them"
    assert "-x GLOO_SOCKET_IFNAME" in " ".join(launched(text, "mpirun", {"GLOO_SOCKET_IFNAME": "eth0"}))


def launched(text: str, launcher: str, variables: dict[str, str]) -> list[str]:
    """Return the arguments of the launcher of a script's ranks, as bash makes them."""
    command = text[text.index(f"\n{launcher} -") :].partition(" 2> >(tee")[0]
    script = f"run=R job=J; {launcher}() {{ printf '%s\\n' \"$@\"; }}; {command}"
    given = {"PATH": os.environ["PATH"], "SLURM_JOB_NUM_NODES": "2", **variables}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=given).stdout.split(
        "\n"
    )


def test_srun_binds_each_rank_to_the_cpus_of_its_mask() -> None:
    text = render(read_recipe(str(FILES), "bert-ddp"), options(ranks=2))
    bind = "--cpu-bind=mask_cpu:f,f0"
    words = launched(text, "srun", {"HPCAI_CPU_BIND": bind})
    assert words.index(bind) < words.index("python3")
    assert {"--ntasks-per-node=2", "--ntasks=4"} <= set(words)
    unknown = launched(text, "srun", {})
    assert [word for word in unknown if word in ("", bind)] == [""], "no empty argument instead of masks"


def test_pyxis_gets_the_file_of_an_image_without_its_digest() -> None:
    text = render(read_recipe(str(FILES), "bert-ddp"), options(image=f"/i/x.sqsh@sha256:{'0' * 64}"))
    assert "--container-image=/i/x.sqsh " in text
    assert f"--image /i/x.sqsh@sha256:{'0' * 64}" in text


def test_an_image_gets_the_folders_mounted() -> None:
    # The shell changes nothing in the name of the folder.
    data = "/scratch/$HOME `true` d"
    text = render(read_recipe(str(FILES), "fsdp"), options(image="x@sha256:0", data=data))
    assert "--container-image=x@sha256:0" in text
    word = re.search(r"--container-mounts=.*?(?= [^ ]*python3 )", text.replace("\\\n", " "))
    assert word
    echo = ["bash", "-c", f"run=/r job=/j; printf '%s\\n' {word[0]}"]
    shown = subprocess.run(echo, capture_output=True, text=True, check=True).stdout
    assert shown == f"--container-mounts=/r,/j,/usr/share/hpcai/training,{data}\n"


def test_the_trainer_gets_what_differs_from_the_default() -> None:
    size = read_recipe(str(FILES), "gpt-deepspeed").size("175B")
    words = trainer_arguments(size, 7)
    assert {"--steps=7", "--hidden=12288", "--sequence=512", "--zero=3", "--offload-optimizer"} <= set(words)
    assert not [word for word in words if word.startswith(("--tensor", "--gated", "--kv-heads"))]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with one recipe."""
    shutil.copytree(FILES / "recipes/fsdp", tmp_path / "recipes/fsdp")
    return tmp_path


def change(folder: pathlib.Path, change: dict[str, Any]) -> None:
    """Change the recipe's file."""
    path = folder / "recipes/fsdp/recipe.json"
    content = json.loads(path.read_text())
    for key, value in change.items():
        place = content
        *above, last = key.split("/")
        for part in above:
            place = place[part]
        place[last] = value
    path.write_text(json.dumps(content))


EXPECTED = {"value": 9, "unit": "MB/s of data per GPU", "conditions": "on V100", "source": "an article"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": 9}, "schema must be 1"),
        ({"trainr": "x"}, "unknown keys trainr"),
        ({"signal": "bell"}, "signal must be marker, latest or rename"),
        ({"name": "other"}, "name must be 'fsdp'"),
        ({"sizes": {}}, "sizes must have at least one size"),
        ({"sizes/tiny/nods": 2}, "sizes.tiny has unknown keys nods"),
        ({"sizes/tiny/nodes": 0}, "sizes.tiny.nodes must be a whole number above 0"),
        ({"sizes/tiny/model": "9B"}, "sizes.tiny.model must be a shape, or one of"),
        ({"sizes/tiny/model/layerz": 2}, "sizes.tiny.model has unknown keys layerz"),
        ({"sizes/tiny/layout/zero": 4}, "sizes.tiny.layout.zero must be a whole number from 0 to 3"),
        ({"sizes/tiny/device": "tpu"}, "sizes.tiny.device must be cuda or cpu"),
        ({"signal": "latest"}, "signal latest needs latest_file"),
        ({"image": "nvcr.io/nvidia/pytorch:25.01-py3"}, "image must be an image with its digest, as NAME@sha256"),
        (
            {"sizes/tiny/expected": EXPECTED},
            "sizes.tiny.expected in MB/s of data per GPU needs sizes.tiny.sample_bytes",
        ),
        ({"sizes/tiny/expected": {**EXPECTED, "unit": "GB/s"}}, "sizes.tiny.expected.unit must be samples/s per GPU, "),
        ({"data_sums": "../sums"}, "data_sums must be the name of a file beside recipe.json"),
    ],
)
def test_a_typing_error_is_named_with_its_place(folder: pathlib.Path, changed: dict[str, Any], words: str) -> None:
    change(folder, changed)
    with pytest.raises(Malformed, match=r"recipe\.json") as raised:
        read_recipe(str(folder), "fsdp")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_text_of_a_recipe_becomes_a_command_of_the_script(folder: pathlib.Path) -> None:
    hostile = {"a": "$(touch made)", "b": "`touch made`", "c": "x; touch made", "d": "x' 'touch made"}
    change(folder, {"sizes/tiny/arguments": hostile, "summary": "$(touch made)"})
    text = render(read_recipe(str(folder), "fsdp"), options(data="/d $(touch made)", python="/a b/python"))
    expected = {"/a b/python", "--data=/d $(touch made)", *(f"--{name}={value}" for name, value in hostile.items())}
    assert expected <= set(launched(text, "srun", {}))
    assert [line for line in text.splitlines() if line.startswith("# $(touch made)")]


def test_an_unknown_recipe_names_a_similar_one(folder: pathlib.Path) -> None:
    with pytest.raises(UnknownRecipe, match="Did you mean fsdp"):
        read_recipe(str(folder), "fsdb")
    with pytest.raises(UnknownRecipe, match="There are: fsdp"):
        read_recipe(str(folder), "../../etc")
    with pytest.raises(UnknownRecipe, match="it has tiny, 8B, 70B"):
        read_recipe(str(folder), "fsdp").size("9B")


def test_missing_recipes_name_the_role(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnknownRecipe, match=r"hpcai\.azure\.training"):
        names(str(tmp_path / "nothing"))


def test_a_file_that_is_not_json_is_named(folder: pathlib.Path) -> None:
    (folder / "recipes/fsdp/recipe.json").write_text("{")
    with pytest.raises(Malformed, match="it is not JSON"):
        read_recipe(str(folder), "fsdp")
