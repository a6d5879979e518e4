# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recipes and their scripts: what is shipped is valid and plannable, and mistakes are named in one line."""

from __future__ import annotations

import json
import pathlib
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
    assert set(RECIPES) == known


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
    assert 'trap \'touch "$job/near-limit"; kill -USR1 "$training"\' USR1' in text


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


def test_mpirun_starts_ranks_without_ssh_and_without_binding() -> None:
    text = render(read_recipe(str(FILES), "bert-ddp"), options(launcher=MPIRUN, ranks=8))
    assert 'mpirun -np "$((SLURM_JOB_NUM_NODES * 8))" --map-by ppr:8:node --bind-to none' in text
    assert "srun --ntasks-per-node=8" not in text


def test_an_image_gets_the_folders_mounted() -> None:
    text = render(read_recipe(str(FILES), "fsdp"), options(image="x@sha256:0", data="/scratch/d"))
    assert "--container-image=x@sha256:0" in text
    assert '--container-mounts="$run,$job,/usr/share/hpcai/training,/scratch/d"' in text


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
    ],
)
def test_a_typing_error_is_named_with_its_place(folder: pathlib.Path, changed: dict[str, Any], words: str) -> None:
    change(folder, changed)
    with pytest.raises(Malformed, match=r"recipe\.json") as raised:
        read_recipe(str(folder), "fsdp")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


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
