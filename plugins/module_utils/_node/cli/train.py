# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode train: plan, start and end trainings of large models."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, fields, replace

from ..forms import ConfigError
from ..job.checkpoint.directory import Signal
from ..job.checkpoint.names import LARGEST_STEP
from ..job.recovery import HOLD, Limits, decide
from ..machine.own_files import require_own, write_own
from ..machine.root import Root
from ..machine.run import CommandFailed, must, run
from ..machine.vm_size import size_facts
from ..pinning.advise import AdviceError
from ..pinning.layout import UnknownLayout, read_layout
from ..recover.comment import NoNote, add_saved, hung, job_of
from ..recover.suspects import add_slow_nodes
from ..recover.watch import progress_file, write_step
from ..sku import VmSize
from ..sku.prices import read_prices
from ..train import environment, plan_text, preflight, published, report, restart
from ..train.catalog import MODELS
from ..train.estimate import NODE_HOURS_TO_FAILURE
from ..train.layout import Job, Layout
from ..train.lineage import FILE, lineage
from ..train.model import Model
from ..train.plan import Options, Plan, plan
from ..train.recipe import Recipe, Size, names, read_recipe
from ..train.record import CONTINUE, Record, outcome, read_record, write_record
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError, no_arguments
from .train_actions import ACTIONS, DESCRIPTION
from .train_script import gpus_of, script

_SHAPE = ("layers", "hidden", "heads", "sequence", "vocabulary", "kv_heads", "ffn", "gated", "flash")
_NEEDED = ("layers", "hidden", "heads", "sequence")
_LONGEST_WARN_S = 65535
_TRANSFORMER = (*_SHAPE, *(field.name for field in fields(Layout)), "micro_batch", "batch", "tokens", "tflops", "peak")
"""Options of a plan that only transformers have."""


def _execute(args: argparse.Namespace) -> Answer:
    for name in (
        "nodes",
        "ranks",
        "steps",
        "save_every",
        "micro_batch",
        "batch",
        "tensor",
        "pipeline",
        "interleave",
        *_SHAPE[:7],
    ):
        given = vars(args).get(name)
        if given is not None and given < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    for name in ("tokens", "tflops", "node_gbps", "account_gbps", "node_hours", "data_gb"):
        given = vars(args).get(name)
        if given is not None and not given > 0:
            raise UsageError(f"--{name.replace('_', '-')} must be more than 0")
    if not 0 <= (vars(args).get("warn") or 0) <= _LONGEST_WARN_S:
        raise UsageError(f"--warn must be from 0 to {_LONGEST_WARN_S}, as Slurm's --signal requires")
    for name in ("hang", "requeues"):
        if (vars(args).get(name) or 0) < 0:
            raise UsageError(f"--{name} must not be negative")
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
    base = Size(1, 1, 1, "")
    if args.recipe:
        recipe = read_recipe(args.recipes, args.recipe)
        base = recipe.size(args.size)
        if base.model is None and not args.model and not args.layers:
            return _other_plan(args, recipe, base, size)
    made = _planned(args, base, size)
    text, data = plan_text.as_text(made), plan_text.as_data(made)
    if base.expected is not None:
        words = published.words(base.expected)
        text += "" if made.speed and made.speed.source == words else f"\npublished: {words}"
        data["published"] = asdict(base.expected)
    return Answer(GOOD if made.fits else BAD, text, data)


def _other_plan(args: argparse.Namespace, recipe: Recipe, base: Size, size: VmSize) -> Answer:
    """Answer what is expected of a recipe that is no transformer."""
    given = next((name for name in _TRANSFORMER if vars(args)[name] is not None), None)
    if given or args.node_hours is not None:
        name = (given or "node_hours").replace("_", "-")
        raise UsageError(f"{recipe.name} is no transformer: leave out --{name}, or give --model or --layers too")
    made = published.other_plan(
        recipe, args.size, args.nodes or base.nodes, gpus_of(size), size, _options(args, base, size)
    )
    return Answer(GOOD, published.as_text(made), published.as_data(made))


def _planned(args: argparse.Namespace, base: Size, size: VmSize) -> Plan:
    """Return the plan of the options of plan."""
    model = _model(args, base)
    changed = {field.name: vars(args)[field.name] for field in fields(Layout) if vars(args).get(field.name) is not None}
    layout = replace(base.layout, **changed)
    job = Job(
        args.nodes or base.nodes,
        gpus_of(size),
        layout,
        args.micro_batch or base.micro_batch,
        args.batch or base.batch,
    )
    return plan(model, job, size, published.with_rate(_options(args, base, size), base, model, layout, size))


def _options(args: argparse.Namespace, base: Size, size: VmSize) -> Options:
    """Return what a plan assumes."""
    hourly, currency = _price(args, size)
    return Options(
        tokens=args.tokens or base.tokens,
        rate=args.tflops,
        peak=args.peak or "",
        hourly=hourly,
        currency=currency,
        node_gbps=args.node_gbps,
        account_gbps=args.account_gbps,
        node_hours=args.node_hours or NODE_HOURS_TO_FAILURE,
        data_bytes=None if not (args.data_gb or base.data_gb) else (args.data_gb or base.data_gb or 0) * 1e9,
    )


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
    wanted = preflight.NodeNeeds(
        node=os.environ.get("SLURMD_NODENAME", ""),
        run=args.run,
        trainer=f"{args.recipes}/trainers/{recipe.trainer}",
        python=args.python,
        image=args.image,
        needs_image=recipe.needs_image,
        data=args.data,
        sums=args.sums,
        staged=args.staged,
        nodes=nodes,
        sharded=not args.shared,
    )
    found = preflight.checks(wanted, _plan_of(args, recipe, size, nodes), run)
    if args.job and os.environ.get("SLURM_NODEID", "0") == "0":
        begun = read_record(args.job) or Record(f"{recipe.name} {args.size}")
        step = restart.kept_step(args.run, _signal(recipe), _in_store(), run)
        seen = report.last_seen(args.job)
        invalid = next((one.words for one in found if one.verdict == preflight.FAIL and one.everywhere), "")
        begun = begun.begun(environment.job_nodes(os.environ), time.time(), step, seen, invalid)
        write_record(args.job, begun)
        source = os.environ.get("SLURM_SUBMIT_DIR", "")
        made = lineage(begun, wanted.trainer, source, args.sums, args.python, args.image, recipe.packages, run)
        write_own(f"{args.job}/{FILE}", json.dumps(made, indent=2) + "\n", in_own_folder=True)
    status = {preflight.FAIL: BAD, preflight.UNKNOWN: UNKNOWN}.get(preflight.verdict(found), GOOD)
    text = "\n".join(f"{wanted.node or 'this node'}: {one.verdict}: {one.name}: {one.words}" for one in found)
    # A data set that is not staged yet, or an unknown health, must not stop a training.
    return Answer(BAD if status == BAD else GOOD, text, {"checks": [asdict(one) for one in found]})


def _plan_of(args: argparse.Namespace, recipe: Recipe, size: Size, nodes: int) -> Plan | None:
    """Return the plan of a recipe on these nodes; None for other models, and for trainings on CPUs."""
    if size.model is None or size.device != "cuda":
        return None
    facts, _origin = size_facts(Root(args.root), args.vm_size)
    return plan(size.model, Job(nodes, gpus_of(facts), size.layout, size.micro_batch, size.batch), facts)


def _signal(recipe: Recipe) -> Signal:
    return Signal(recipe.signal, recipe.latest_file if recipe.signal == "latest" else ".complete")


def _in_store() -> bool:
    return bool(os.environ.get("HPCAI_CHECKPOINT_STORE"))


def _end(args: argparse.Namespace) -> Answer:
    found = read_record(args.job)
    if found is None or not found.runs:
        return Answer(UNKNOWN, f"{args.job} has no record of a run: the preflight begins it.", {"decision": None})
    if not args.dry_run:
        # Before any other file there is opened: another user's pipe would block this.
        require_own(args.job)
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
        args.status != 0 and bool(job_of(os.environ)) and hung(os.environ, run),
    )
    kept = restart.kept_step(args.run, _signal(recipe), _in_store(), run)
    if args.refused and found.runs[-1].cause is not None:
        # The preflight of this run could not even begin it. It must not replace the run before.
        found = found.begun(environment.job_nodes(os.environ), time.time(), kept)
    ended = found.ended(time.time(), how, kept)
    used = sorted({node for one in ended.runs for node in one.nodes})
    decision = decide(ended.history(), Limits(requeues=args.requeues), preflight.drained(used, run))
    decided = ended.decided(decision.reason)
    made = _reported(args, decided, recipe, size)
    text = report.as_text(made)
    if not args.dry_run:
        write_record(args.job, decided)
        job = _job_id()
        if job:
            text += _order_checks([one.subject for one in made.slow if one.subject in used], job)
            if not args.json:
                # Written first: a requeue ends the script that called this.
                os.write(1, f"{text}\n".encode())
                text = ""
            for words in restart.commands(decision, job):
                must(run(words))
    status = BAD if decision.action == HOLD else GOOD
    return Answer(status, text, {"decision": asdict(decision), "run": asdict(decided.runs[-1])})


def _order_checks(slow: list[str], job: str) -> str:
    """Note slow nodes for the controller, which checks them after the job; return what to add to the report."""
    if not slow:
        return ""
    try:
        add_slow_nodes(job, slow, run)
    except (CommandFailed, NoNote) as error:
        return f"\nThe controller was not asked to check {', '.join(slow)}: {error}"
    return f"\nThe controller was asked to check {', '.join(slow)} after the job."


def _job_id() -> str:
    """Return the job's id for scontrol; empty outside of a job."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def _recipe_of(args: argparse.Namespace, found: Record) -> tuple[Recipe, Size]:
    name, _blank, size = found.recipe.partition(" ")
    recipe = read_recipe(args.recipes, name)
    return recipe, recipe.size(size)


def _progress(args: argparse.Namespace) -> Answer:
    if not 0 <= args.step <= LARGEST_STEP:
        raise UsageError(f"{args.step} is not a step")
    if not job_of(os.environ):
        raise UsageError("train progress works in a job only: SLURM_JOB_ID is missing")
    write_step(args.file or progress_file(os.environ), args.step)
    if args.saved:
        try:
            add_saved(os.environ, args.step, time.time(), run)
        except NoNote as error:
            raise CommandFailed(f"the checkpoint was not noted: {error}") from error
    return Answer(GOOD, "", {"step": args.step, "saved": args.saved})


def _report(args: argparse.Namespace) -> Answer:
    found = read_record(args.job)
    if found is None or not found.runs:
        return Answer(UNKNOWN, f"{args.job} has no record of a run.", {})
    recipe, size = _recipe_of(args, found)
    made = _reported(args, found, recipe, size)
    return Answer(GOOD, report.as_text(made), report.as_data(made))


def _reported(args: argparse.Namespace, found: Record, recipe: Recipe, size: Size) -> report.Report:
    progress = report.read_progress(args.job)
    nodes = len(found.runs[-1].nodes)
    made = _plan_of(args, recipe, size, nodes)
    ranks = len({one.rank for one in progress}) or nodes
    hourly, currency = None, ""
    if args.prices:
        try:
            facts, _origin = size_facts(Root(args.root), args.vm_size)
            hourly, currency = _price(args, facts)
        except (OSError, ConfigError) as error:
            # What happens to the job must not depend on a price.
            sys.stderr.write(f"The cost is unknown: {error}\n")
    efficiency = report.read_efficiency(args.job)
    return report.report(found, progress, made, ranks, time.time(), hourly, currency, size, efficiency)


_EXECUTED = {
    "list": _list,
    "plan": _plan,
    "script": script,
    "env": _env,
    "preflight": _preflight,
    "progress": _progress,
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
