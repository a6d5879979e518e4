# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Recipes: trainings with a trainer, in sizes from one that runs on two small nodes to that of the source.

A recipe is a folder with ``recipe.json``. The role training copies the recipes and trainers to ``/usr/share/hpcai``.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..forms import (
    ConfigError,
    Malformed,
    anything,
    boolean,
    checked,
    choice,
    instance_of,
    integer,
    list_of,
    mapping_of,
    matching,
    number,
    optional,
    record,
    text,
    text_or_number,
    wrong,
)
from .catalog import MODELS
from .layout import Layout
from .model import RECOMPUTATIONS, Model

SCHEMA = 1
FOLDER = "/usr/share/hpcai/training"
"""What the role training installs: ``recipes`` and ``trainers``."""
SIGNALS = ("marker", "latest", "rename")
"""How a checkpoint is marked as finished, for ``hpcnode checkpoint``."""


SAMPLES, DATA, SCALING = UNITS = ("samples/s per GPU", "MB/s of data per GPU", "% scaling efficiency")
"""What published results measure, beside TFLOP/s. Each can be compared between different numbers of nodes."""


@dataclass(frozen=True)
class Expected:
    """A published result.

    :ivar value: the result.
    :ivar unit: one of ``UNITS``.
    :ivar conditions: of the measurement, such as the GPU.
    :ivar source: where it was published.
    """

    value: float
    unit: str
    conditions: str
    source: str


@dataclass(frozen=True)
class Size:
    """One size of a recipe.

    :ivar nodes: number of nodes, unless another one is asked for.
    :ivar steps: steps of the training.
    :ivar save_every: steps between checkpoints.
    :ivar model: the transformer's shape; None for other models.
    :ivar layout: how it is divided among GPUs.
    :ivar micro_batch: samples that a replica computes at once.
    :ivar batch: samples of a step; None for one micro-batch per replica.
    :ivar ranks_per_node: processes of a node; None for one per GPU.
    :ivar device: ``cuda`` or ``cpu``.
    :ivar arguments: further options of the trainer, by name without dashes.
    :ivar tokens: tokens of the complete training; None if the source does not say.
    :ivar data_gb: size of the data set in GB; None for synthetic data.
    :ivar sample_bytes: bytes of a sample, before a compression; None if unknown.
    :ivar vm_size: the VM size of the source.
    :ivar expected: a published result; None if the catalogue of rates has it, or there is none.
    :ivar verified: where this size ran; ``not run`` otherwise.
    """

    nodes: int
    steps: int
    save_every: int
    verified: str
    model: Model | None = None
    layout: Layout = field(default_factory=Layout)
    micro_batch: int = 1
    batch: int | None = None
    ranks_per_node: int | None = None
    device: str = "cuda"
    arguments: Mapping[str, str] = field(default_factory=dict)
    tokens: float | None = None
    data_gb: float | None = None
    sample_bytes: int | None = None
    vm_size: str = ""
    expected: Expected | None = None


@dataclass(frozen=True)
class Recipe:
    """A recipe.

    :ivar name: name of its folder.
    :ivar summary: one line.
    :ivar source: the document that it follows.
    :ivar trainer: file name of its trainer.
    :ivar packages: what the trainer imports, with versions, for pip.
    :ivar signal: one of ``SIGNALS``.
    :ivar latest_file: the file that names the newest checkpoint for the framework; empty if it needs none.
    :ivar any_nodes: whether a checkpoint can be loaded on another number of nodes.
    :ivar sharded: whether a checkpoint's parts on one node cannot be loaded without those of the others.
    :ivar needs_image: whether it runs in a container image only.
    :ivar image: the container image, with its digest; empty for none.
    :ivar data_sums: file beside ``recipe.json`` with the SHA-256 of each file of its data set; empty for none.
    :ivar sizes: by name.
    """

    name: str
    summary: str
    source: str
    trainer: str
    packages: tuple[str, ...]
    signal: str
    latest_file: str
    any_nodes: bool
    sharded: bool
    needs_image: bool
    image: str
    data_sums: str
    sizes: Mapping[str, Size]

    def size(self, name: str) -> Size:
        """Return one of the sizes.

        :raises UnknownRecipe: there is no such size.
        """
        if name not in self.sizes:
            raise UnknownRecipe(f"{self.name} has no size {name!r}: it has {', '.join(self.sizes)}.")
        return self.sizes[name]


class UnknownRecipe(ConfigError):
    """There is no such recipe or size; the message names those that exist."""


_SHAPE: Mapping[str, Any] = {
    "layers": integer(1),
    "hidden": integer(1),
    "heads": integer(1),
    "sequence": integer(1),
    "vocabulary": integer(1),
    "kv_heads": optional(integer(1)),
    "ffn": optional(integer(1)),
    "gated": boolean,
    "flash": boolean,
}
_LAYOUT: Mapping[str, Any] = {
    "tensor": integer(1),
    "pipeline": integer(1),
    "interleave": integer(1),
    "zero": integer(0, 3),
    "distributed_optimizer": boolean,
    "sequence_parallel": boolean,
    "recomputation": choice(*RECOMPUTATIONS),
    "offload_optimizer": boolean,
    "offload_activations": boolean,
    "offload_nvme": boolean,
    "fp32_gradients": boolean,
}
_ARGUMENT = matching(r"[a-z][a-z0-9-]*", "the name of an option such as learning-rate")


def model_form(path: str, value: Any) -> Model:
    """The form of a model: the name of a published shape, one with another sequence, or a shape."""
    if isinstance(value, str):
        if value not in MODELS:
            raise wrong(path, f"a shape, or one of {', '.join(MODELS)}", value)
        return MODELS[value]
    if isinstance(value, Mapping) and "name" in value:
        given = record({"name": choice(*MODELS), "sequence": integer(1)}, ("name", "sequence"))(path, value)
        return MODELS[given["name"]].with_sequence(given["sequence"])
    return instance_of(Model, _SHAPE)(path, value)


_SIZE = instance_of(
    Size,
    {
        "nodes": integer(1),
        "steps": integer(1),
        "save_every": integer(1),
        "verified": text,
        "model": model_form,
        "layout": instance_of(Layout, _LAYOUT),
        "micro_batch": integer(1),
        "batch": integer(1),
        "ranks_per_node": integer(1),
        "device": choice("cuda", "cpu"),
        "arguments": mapping_of(_ARGUMENT, text_or_number),
        "tokens": number(above=True),
        "data_gb": number(above=True),
        "sample_bytes": integer(1),
        "vm_size": text,
        "expected": instance_of(
            Expected, {"value": number(above=True), "unit": choice(*UNITS), "conditions": text, "source": text}
        ),
    },
)
_RECIPE = record(
    {
        "schema": anything,
        "name": matching(r"[a-z][a-z0-9-]*", "a name such as gpt-megatron"),
        "summary": text,
        "source": text,
        "trainer": matching(r"[a-z][a-z0-9_]*\.py", "the name of a Python file"),
        "packages": list_of(text),
        "signal": choice(*SIGNALS),
        "latest_file": matching(r"[A-Za-z0-9_.-]*", "a file name, or empty"),
        "any_nodes": boolean,
        "sharded": boolean,
        "needs_image": boolean,
        "image": matching(r"([^@\s]+@sha256:[0-9a-f]{64})?", "an image with its digest, as NAME@sha256:DIGEST"),
        "data_sums": matching(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)?", "the name of a file beside recipe.json"),
        "sizes": mapping_of(matching(r"[A-Za-z0-9.-]+", "the name of a size"), _SIZE),
    },
    ("schema", "name", "summary", "source", "trainer", "packages", "signal", "sizes"),
    defaults={
        "latest_file": "",
        "any_nodes": False,
        "sharded": False,
        "needs_image": False,
        "image": "",
        "data_sums": "",
    },
)


def recipe_form(path: str, value: Any) -> Recipe:
    """The form of ``recipe.json``."""
    if isinstance(value, Mapping) and value.get("schema") != SCHEMA:
        raise wrong("schema", f"{SCHEMA}, which is the schema that this release reads", value.get("schema"))
    given = _RECIPE(path, value)
    if not given["sizes"]:
        raise Malformed("sizes must have at least one size.")
    if given["signal"] == "latest" and not given["latest_file"]:
        raise Malformed("signal latest needs latest_file.")
    for name, size in given["sizes"].items():
        if size.expected is not None and size.expected.unit == DATA and size.sample_bytes is None:
            raise Malformed(f"sizes.{name}.expected in {DATA} needs sizes.{name}.sample_bytes.")
    return Recipe(**{key: item for key, item in given.items() if key != "schema"})


def read_recipe(folder: str, name: str) -> Recipe:
    """Return a recipe.

    :param folder: with ``recipes`` and ``trainers``.
    :raises UnknownRecipe: there is none with this name; the message names similar ones.
    :raises Malformed: its file is invalid; the message is one line with the place.
    """
    known = names(folder)
    if name not in known:
        similar = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {similar[0]}?" if similar else f"There are: {', '.join(known) or 'none'}."
        raise UnknownRecipe(f"There is no recipe {name!r} in {folder}/recipes. {hint}")
    path = f"{folder}/recipes/{name}/recipe.json"
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except ValueError as error:
        raise Malformed(f"{path}: it is not JSON: {error}") from None
    recipe = checked(recipe_form, content, path)
    if recipe.name != name:
        raise Malformed(f"{path}: name must be {name!r}, like its folder, not {recipe.name!r}.")
    return recipe


def names(folder: str) -> list[str]:
    """Return the names of the recipes in a folder.

    :raises UnknownRecipe: there is no such folder.
    """
    try:
        listed = os.listdir(f"{folder}/recipes")
    except OSError as error:
        raise UnknownRecipe(
            f"Cannot read {folder}/recipes: {error.strerror}. Install the recipes with the role hpcai.azure.training, "
            "or give --recipes."
        ) from None
    return sorted(name for name in listed if os.path.isfile(f"{folder}/recipes/{name}/recipe.json"))
