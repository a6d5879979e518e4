# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode train: plan, start and end trainings of large models."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, fields, replace

from ..forms import ConfigError
from ..job.checkpoint.directory import Signal
from ..job.recovery import HOLD, Limits, decide
from ..machine.root import Root
from ..machine.run import must, run
from ..machine.vm_size import size_facts
from ..pinning.advise import AdviceError
from ..pinning.layout import UnknownLayout, read_layout
from ..sku import VmSize
from ..sku.prices import read_prices
from ..train import environment, plan_text, preflight, report, restart
from ..train.catalog import MODELS
from ..train.estimate import NODE_HOURS_TO_FAILURE
from ..train.layout import Job, Layout
from ..train.model import Model
from ..train.plan import Options, Plan, plan
from ..train.recipe import Recipe, Size, names, read_recipe
from ..train.record import CONTINUE, Record, outcome, read_record, write_record
from ..train.script import MPIRUN, ScriptOptions, render
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError, no_arguments
from .train_actions import ACTIONS, DESCRIPTION

_SHAPE = ("layers", "hidden", "heads", "sequence", "vocabulary", "kv_heads", "ffn", "gated", "flash")
_NEEDED = ("layers", "hidden", "heads", "sequence")


def _execute(args: argparse.Namespace) -> Answer:
    for name in ("nodes", "ranks", "steps", "micro_batch", "batch", "tensor", "pipeline", "interleave", *_SHAPE[:7]):
        given = vars(args).get(name)
        if given is not None and given < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    for name in ("tokens", "tflops", "node_gbps", "account_gbps", "node_hours", "data_gb"):
        given = vars(args).get(name)
        if given is not None and not given > 0:
            raise UsageError(f"--{name.replace('_', '-')} must be more than 0")
    if not 0 <= (vars(args).get("zero") or 0) <= 3:
        raise UsageError("--zero must be 0, 1, 2 or 3")
    return _EXECUTED[args.action](args)


def _list(args: argparse.Namespace) -> Answer:
    recipes = [read_recipe(args.recipes, name) for name in names(args.recipes)]
    if not recipes:
        return Answer(UNKNOWN, f"There are no recipes in {args.recipes}.", {"recipes": []})
    lines = []
    for recipe in recipes:
        lines += [f"{recipe.name}: {recipe.summary} ({recipe.source})"]
        lines += [f"  {name}: {size.nodes} nodes, {size.verified}" for name, size in recipe.sizes.items()]
    return Answer(GOOD, "\n".join(lines), {"recipes": [asdict(recipe) for recipe in recipes]})


def _plan(args: argparse.Namespace) -> Answer:
    size, _origin = size_facts(Root(args.root), args.vm_size)
    made = _planned(args, size)
    text = plan_text.as_text(made)
    if args.recipe:
        expected = read_recipe(args.recipes, args.recipe).size(args.size).expected
        if expected is not None:
            text += f"\npublished: {expected.value:g} {expected.unit} ({expected.source})"
    return Answer(GOOD if made.fits else BAD, text, plan_text.as_data(made))


def _planned(args: argparse.Namespace, size: VmSize) -> Plan:
    """Return the plan of the options of plan."""
    base = Size(1, 1, 1, "")
    if args.recipe:
        recipe = read_recipe(args.recipes, args.recipe)
        base = recipe.size(args.size)
        if base.model is None and not args.model and not args.layers:
            raise UsageError(f"{recipe.name} is no transformer, so it has no plan: see 'hpcnode train list'")
    model = _model(args, base)
    changed = {field.name: vars(args)[field.name] for field in fields(Layout) if vars(args).get(field.name) is not None}
    layout = replace(base.layout, **changed)
    job = Job(
        args.nodes or base.nodes,
        _gpus(size),
        layout,
        args.micro_batch or base.micro_batch,
        args.batch or base.batch,
    )
    hourly, currency = _price(args, size)
    options = Options(
        tokens=args.tokens or base.tokens,
        rate=args.tflops,
        precision=args.precision,
        hourly=hourly,
        currency=currency,
        node_gbps=args.node_gbps,
        account_gbps=args.account_gbps,
        node_hours=args.node_hours or NODE_HOURS_TO_FAILURE,
        data_bytes=None if not (args.data_gb or base.data_gb) else (args.data_gb or base.data_gb or 0) * 1e9,
    )
    return plan(model, job, size, options)


def _model(args: argparse.Namespace, base: Size) -> Model:
    given = {name: vars(args)[name] for name in _SHAPE if vars(args)[name] is not None}
    if args.model:
        if args.model not in MODELS:
            raise UsageError(f"--model {args.model} is not known: there are {', '.join(MODELS)}; or give --layers ...")
        return replace(MODELS[args.model], **given)
    if base.model is not None:
        return replace(base.model, **given)
    lacking = [f"--{name}" for name in _NEEDED if name not in given]
    if lacking:
        raise UsageError(f"name a recipe or a --model, or give the shape: {', '.join(lacking)} are missing")
    return Model(**given)


def _gpus(size: VmSize) -> int:
    if not size.gpu_count:
        raise UsageError(f"{size.name} has no known GPUs: plan for a VM size with GPUs (--vm-size)")
    return size.gpu_count


def _price(args: argparse.Namespace, size: VmSize) -> tuple[float | None, str]:
    """Return the price of a node per hour and its currency; None if it is unknown."""
    if not args.prices:
        return None, ""
    if not args.region:
        raise UsageError("--prices needs --region")
    with open(args.prices, encoding="utf-8") as file:
        prices = read_prices(file.read(), args.prices)
    hourly = prices.of_size(args.region, size.name, args.spot)
    if hourly is None:
        raise ConfigError(f"{args.prices} has no price of {size.name} in {args.region}: add it, or leave out --prices.")
    return hourly, f"{prices.currency} (prices of {prices.date})"


def _script(args: argparse.Namespace) -> Answer:
    recipe = read_recipe(args.recipes, args.recipe)
    size = recipe.size(args.size)
    gpus = 0
    if size.device == "cuda":
        facts, _origin = size_facts(Root(args.root), args.vm_size or size.vm_size or None)
        gpus = _gpus(facts)
    ranks = args.ranks or size.ranks_per_node or gpus or 1
    if args.source and not args.data:
        raise UsageError("--source needs --data, the folder to stage to")
    if args.launcher == MPIRUN and args.image:
        raise UsageError("--launcher mpirun starts no container: leave out --image or --launcher")
    if recipe.any_nodes and recipe.sharded and not (args.store or args.shared):
        raise UsageError(f"each node of {recipe.name} restores the parts of all nodes: give --store, or --shared")
    if recipe.needs_image and not args.image:
        raise UsageError(f"{recipe.name} runs in a container image only: give --image NAME@sha256:DIGEST")
    options = ScriptOptions(
        size=args.size,
        nodes=args.nodes or size.nodes,
        gpus=gpus,
        ranks=ranks,
        run=args.run or f"/scratch/$USER/{recipe.name}-{args.size}",
        store=args.store,
        shared=args.shared,
        python=args.python,
        image=args.image,
        data=args.data,
        source=args.source,
        launcher=args.launcher,
        time=args.time,
        partition=args.partition,
        warn_s=args.warn,
        steps=args.steps,
        folder=args.recipes,
    )
    text = render(recipe, options)
    return Answer(GOOD, text.rstrip("\n"), {"script": text})


def _env(args: argparse.Namespace) -> Answer:
    try:
        layout = read_layout(Root(args.root))
    except UnknownLayout:
        layout = None
    try:
        found, notes = environment.variables(os.environ, run, layout, args.ranks)
    except AdviceError as error:
        raise UsageError(str(error)) from error
    lines = [environment.exports(found), *(f"# {note}" for note in notes)]
    return Answer(GOOD, "\n".join(lines), {"variables": found, "notes": notes})


def _preflight(args: argparse.Namespace) -> Answer:
    recipe = read_recipe(args.recipes, args.recipe)
    size = recipe.size(args.size)
    nodes = args.nodes or int(os.environ.get("SLURM_JOB_NUM_NODES", size.nodes))
    wanted = preflight.Wanted(
        node=os.environ.get("SLURMD_NODENAME", ""),
        run=args.run,
        trainer=f"{args.recipes}/trainers/{recipe.trainer}",
        python=args.python,
        image=args.image,
        needs_image=recipe.needs_image,
        data=args.data,
        nodes=nodes,
        sharded=not args.shared,
    )
    found = preflight.checks(wanted, _plan_of(args, recipe, size, nodes), run)
    if args.job and os.environ.get("SLURM_NODEID", "0") == "0":
        begun = read_record(args.job) or Record(f"{recipe.name} {args.size}")
        step = restart.kept_step(args.run, _signal(recipe), _in_store(), run)
        write_record(args.job, begun.begun(environment.job_nodes(os.environ), time.time(), step))
    status = {preflight.FAIL: BAD, preflight.UNKNOWN: UNKNOWN}.get(preflight.verdict(found), GOOD)
    text = "\n".join(f"{wanted.node or 'this node'}: {one.verdict}: {one.name}: {one.words}" for one in found)
    # A data set that is not staged yet, or an unknown health, must not stop a training.
    return Answer(BAD if status == BAD else GOOD, text, {"checks": [asdict(one) for one in found]})


def _plan_of(args: argparse.Namespace, recipe: Recipe, size: Size, nodes: int) -> Plan | None:
    """Return the plan of a recipe on these nodes; None for other models, and for trainings on CPUs."""
    if size.model is None or size.device != "cuda":
        return None
    facts, _origin = size_facts(Root(args.root), args.vm_size)
    return plan(size.model, Job(nodes, _gpus(facts), size.layout, size.micro_batch, size.batch), facts)


def _signal(recipe: Recipe) -> Signal:
    return Signal(recipe.signal, recipe.latest_file if recipe.signal == "latest" else ".complete")


def _in_store() -> bool:
    return bool(os.environ.get("HPCAI_CHECKPOINT_STORE"))


def _end(args: argparse.Namespace) -> Answer:
    found = read_record(args.job)
    if found is None or not found.runs:
        return Answer(UNKNOWN, f"{args.job} has no record of a run: the preflight begins it.", {"decision": None})
    with _ignoring_sigterm():
        return _decide_end(args, found)


@contextlib.contextmanager
def _ignoring_sigterm() -> Iterator[None]:
    """Ignore SIGTERM in this context: Slurm ends the script while this requeues it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _decide_end(args: argparse.Namespace, found: Record) -> Answer:
    recipe, size = _recipe_of(args, found)
    errors = restart.read_errors(args.job, args.status not in (0, CONTINUE))
    how = outcome(
        args.status,
        errors,
        args.refused,
        restart.noticed_nodes(args.job),
        os.path.exists(f"{args.job}/{restart.NEAR_LIMIT}"),
    )
    kept = restart.kept_step(args.run, _signal(recipe), _in_store(), run)
    ended = found.ended(time.time(), how, kept)
    used = sorted({node for one in ended.runs for node in one.nodes})
    decision = decide(ended.history(), Limits(requeues=args.requeues), preflight.drained(used, run))
    decided = ended.decided(decision.reason)
    text = _report_text(args, decided, recipe, size)
    if not args.dry_run:
        write_record(args.job, decided)
        job = _job_id()
        if job:
            if not args.json:
                # Written first: a requeue ends the script that called this.
                os.write(1, f"{text}\n".encode())
                text = ""
            for words in restart.commands(decision, job):
                must(run(words))
    status = BAD if decision.action == HOLD else GOOD
    return Answer(status, text, {"decision": asdict(decision), "run": asdict(decided.runs[-1])})


def _job_id() -> str:
    """Return the job's id for scontrol; empty outside of a job."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def _recipe_of(args: argparse.Namespace, found: Record) -> tuple[Recipe, Size]:
    name, _blank, size = found.recipe.partition(" ")
    recipe = read_recipe(args.recipes, name)
    return recipe, recipe.size(size)


def _report(args: argparse.Namespace) -> Answer:
    found = read_record(args.job)
    if found is None or not found.runs:
        return Answer(UNKNOWN, f"{args.job} has no record of a run.", {})
    recipe, size = _recipe_of(args, found)
    made = _reported(args, found, recipe, size)
    return Answer(GOOD, report.as_text(made), report.as_data(made))


def _report_text(args: argparse.Namespace, found: Record, recipe: Recipe, size: Size) -> str:
    return report.as_text(_reported(args, found, recipe, size))


def _reported(args: argparse.Namespace, found: Record, recipe: Recipe, size: Size) -> report.Report:
    progress = report.read_progress(args.job)
    nodes = len(found.runs[-1].nodes)
    made = _plan_of(args, recipe, size, nodes)
    ranks = len({one.rank for one in progress}) or nodes
    hourly, currency = None, ""
    if args.prices:
        facts, _origin = size_facts(Root(args.root), args.vm_size)
        hourly, currency = _price(args, facts)
    return report.report(found, progress, made, ranks, time.time(), hourly, currency)


_EXECUTED = {
    "list": _list,
    "plan": _plan,
    "script": _script,
    "env": _env,
    "preflight": _preflight,
    "end": _end,
    "report": _report,
}

COMMAND = Command(
    name="train",
    summary="plan, start and end trainings of large models",
    description=DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=ACTIONS,
)
