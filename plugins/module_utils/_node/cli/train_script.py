# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode train script: options that belong together, and what follows from the recipe."""

from __future__ import annotations

import argparse
import os

from ..machine.root import Root
from ..machine.vm_size import size_facts
from ..sku import VmSize
from ..train.layout import Job
from ..train.plan import plan
from ..train.recipe import Recipe, Size, read_recipe
from ..train.script import MPIRUN, ScriptOptions, render
from .command import GOOD, Answer, UsageError


def script(args: argparse.Namespace) -> Answer:
    """Return the script of a recipe."""
    recipe = read_recipe(args.recipes, args.recipe)
    size = recipe.size(args.size)
    gpus, facts = 0, None
    if size.device == "cuda":
        facts, _origin = size_facts(Root(args.root), args.vm_size or size.vm_size or None)
        gpus = gpus_of(facts)
    ranks = args.ranks or size.ranks_per_node or gpus or 1
    if args.source and not args.data:
        raise UsageError("--source needs --data, the folder to stage to")
    if args.data_shared and not args.source:
        raise UsageError("--data-shared needs --source: it says how the data set is staged")
    if args.sums and not args.data:
        raise UsageError("--sums needs --data, the folder of the data set")
    if args.sign and not args.store:
        raise UsageError("--sign needs --store: only checkpoints in Blob storage are signed")
    if args.prices and not args.region:
        raise UsageError("--prices needs --region")
    if args.launcher == MPIRUN and args.image:
        raise UsageError("--launcher mpirun starts no container: leave out --image or --launcher")
    if recipe.any_nodes and recipe.sharded and not (args.store or args.shared):
        raise UsageError(f"each node of {recipe.name} restores the parts of all nodes: give --store, or --shared")
    if size.layout.distributed_optimizer and not args.shared:
        raise UsageError(
            f"{recipe.name} {args.size} writes one checkpoint folder with all nodes: give --shared, and --run with a "
            "folder that all nodes see"
        )
    if size.layout.offload_nvme and args.shared:
        raise UsageError(
            f"{recipe.name} {args.size} keeps its optimizer beside the checkpoints, on the nodes' own disks: leave out "
            "--shared"
        )
    image = args.image or ("" if args.python else recipe.image)
    if recipe.needs_image and not image:
        raise UsageError(f"{recipe.name} runs in a container image only: give --image NAME@sha256:DIGEST")
    options = ScriptOptions(
        size=args.size,
        nodes=args.nodes or size.nodes,
        gpus=gpus,
        ranks=ranks,
        # With the job's id: a new training must not continue what an earlier one has left there.
        run=args.run or f"/scratch/$USER/{recipe.name}-{args.size}-$SLURM_JOB_ID",
        store=args.store,
        shared=args.shared,
        python=args.python or "python3",
        image=image,
        data=args.data,
        data_shared=args.data_shared,
        source=args.source,
        sums=args.sums or (_sums_of(recipe, args.recipes) if args.data else ""),
        signed=args.sign,
        launcher=args.launcher,
        time=args.time,
        partition=args.partition,
        warn_s=args.warn,
        hang_s=args.hang,
        steps=args.steps,
        save_every=args.save_every or _planned_interval(size, facts, args.nodes or size.nodes),
        requeues=args.requeues,
        prices=_prices(args),
        folder=args.recipes,
    )
    text = render(recipe, options)
    return Answer(GOOD, text.rstrip("\n"), {"script": text})


def _planned_interval(size: Size, facts: VmSize | None, nodes: int) -> int | None:
    """Return the steps between checkpoints that lose the least time; None if there is no plan with a rate."""
    if size.model is None or facts is None:
        return None
    made = plan(size.model, Job(nodes, gpus_of(facts), size.layout, size.micro_batch, size.batch), facts)
    if made.speed is None or made.storage is None or made.storage.interval is None:
        return None
    return max(round(made.storage.interval / made.speed.step), 1)


def _sums_of(recipe: Recipe, folder: str) -> str:
    return f"{folder}/recipes/{recipe.name}/{recipe.data_sums}" if recipe.data_sums else ""


def _prices(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the options that let the report calculate the cost."""
    if not args.prices:
        return ()
    return ("--prices", os.path.abspath(args.prices), "--region", args.region, *(["--spot"] if args.spot else []))


def gpus_of(size: VmSize) -> int:
    """Return the number of GPUs of a VM size."""
    if not size.gpu_count:
        raise UsageError(f"{size.name} has no known GPUs: plan for a VM size with GPUs (--vm-size)")
    return size.gpu_count
