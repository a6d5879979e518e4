# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The actions of hpcnode train: what they do, and their options."""

from __future__ import annotations

import argparse

from ...train.catalog import MODELS
from ...train.model import RECOMPUTATIONS
from ...train.recipe import FOLDER
from ...train.script import LAUNCHERS
from ..command import Action, suggest

DESCRIPTION = """\
Plans trainings of large models, writes their batch scripts, and is what these scripts call: checks before the start,
the environment of the ranks, the decision about a restart, the report.

    hpcnode train plan --model 175B --nodes 32 --vm-size nd96amsr_A100_v4 --zero 3
    hpcnode train script fsdp --size tiny > fsdp.sbatch
    sbatch fsdp.sbatch

Recipes are installed by the role hpcai.azure.training.
"""
_LIST = """\
Shows the recipes with their sizes, and where each size ran.

Exit status: 0 good, 2 there are no recipes.
"""
_PLAN = """\
Calculates whether a training fits on nodes of a VM size, how it is divided, and what to expect: rate, duration, list
price, checkpoints. It changes nothing and needs no GPU. The model is a recipe's size (RECIPE --size SIZE), a published
one (--model), or given by its shape.

What does not fit is refused, with the fewest nodes that fit and a layout that fits on the same nodes. The expected rate
is the most similar published one, and its source is shown; if nothing is similar, it is unknown until you give --tflops.

Exit status: 0 it fits, 1 it does not, 2 the VM size or the recipe is not known.
"""
_SCRIPT = """\
Prints a batch script for sbatch. It contains all that happens, in seven steps: preflight, stage, restore, watch, train,
publish, restart. Change it as you like.

Exit status: 0 good, 2 the recipe is not known.
"""
_ENV = """\
Prints variables for eval in a job script: the first node's address, a port, the network interface, and the CPU mask of
each rank on this node.

Exit status: 0 good, 1 slurmctld does not answer, 2 this is no job, or the CPUs are not known.
"""
_PREFLIGHT = """\
Checks this node before a training: its health, the memory that the plan needs, the folder of the checkpoints, trainer,
image and data. The first node also begins the record of the run.

Exit status: 0 good, 1 a check failed, 2 a check could not find out.
"""
_END = """\
Ends a run: finds out why it ended and how far it got, decides whether it starts again, prints the report, and requeues
or holds the job. A job that did not advance twice in sequence, or whose error a restart would repeat, is held with the
reason. With --dry-run it only shows the decision.

Exit status: 0 the training finished or is requeued, 1 it is held, 2 nothing is known of it.
"""
_REPORT = """\
Shows what a training reached: its rate against the expected one, the time that restarts lost, which node was slow.

Exit status: 0 good, 2 nothing is known of it.
"""


def _add_recipes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipes", metavar="DIR", default=FOLDER, help="recipes and trainers (%(default)s)")


def _add_recipe(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs=None if needed else "?", help="name of a recipe")
    parser.add_argument("--size", metavar="SIZE", default="tiny", help="a size of the recipe (%(default)s)")
    _add_recipes(parser)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", type=int, metavar="N", help="number of nodes (the recipe's)")
    add("--vm-size", metavar="SIZE", help="VM size of the nodes (this machine's)")


def _add_prices(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--prices", metavar="FILE", help="price file, for the list price")
    add("--region", metavar="NAME", default="", help="region of the prices")
    add("--spot", action="store_true", help="use the price of spot nodes")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_recipe(parser, needed=False)
    _add_machine(parser)
    suggest(add("--model", metavar="NAME", help=f"a published shape: {', '.join(MODELS)}"), MODELS)
    for name, words in (
        ("layers", "layers of the model"),
        ("hidden", "hidden size"),
        ("heads", "attention heads"),
        ("sequence", "tokens of a sample"),
        ("vocabulary", "tokens known"),
        ("kv-heads", "heads of keys and values, if fewer"),
        ("ffn", "inner size of the feed-forward layers, if not 4 times hidden"),
        ("micro-batch", "samples that a replica computes at once"),
        ("batch", "samples of a step"),
        ("tensor", "degree of tensor parallelism"),
        ("pipeline", "degree of pipeline parallelism"),
        ("interleave", "parts of the model per stage of the pipeline"),
    ):
        add(f"--{name}", type=int, metavar="N", help=words)
    add("--zero", type=int, choices=range(4), help="stage of ZeRO; 3 is also FSDP")
    add("--recomputation", choices=RECOMPUTATIONS, help="what the backward pass computes again (full)")
    for name, words in (
        ("gated", "the feed-forward layers are gated (SwiGLU)"),
        ("flash", "attention never stores the matrix of all pairs"),
        ("sequence-parallel", "norms and dropout are divided along the sequence"),
        ("distributed-optimizer", "Megatron's distributed optimizer"),
        ("offload-optimizer", "the optimizer in host memory"),
        ("offload-activations", "activations in host memory"),
        ("offload-nvme", "the optimizer on local disks"),
        ("fp32-gradients", "gradients in fp32"),
    ):
        add(f"--{name}", action="store_true", default=None, help=words)
    add("--tokens", type=float, metavar="N", help="tokens of the complete training, such as 300e9")
    add("--tflops", type=float, metavar="X", help="rate of each GPU, in place of the published one")
    add("--precision", default="bf16", metavar="NAME", help="precision of the peak: bf16, fp16, fp8 (bf16)")
    add("--node-gbps", type=float, metavar="X", help="rate of a node to the storage account (the VM size's)")
    add("--account-gbps", type=float, metavar="X", help="limit of the storage account")
    add("--node-hours", type=float, metavar="H", help="node hours between failures (6300)")
    add("--data-gb", type=float, metavar="X", help="size of the data set that is staged")
    _add_prices(parser)


def _add_script(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_recipe(parser)
    _add_machine(parser)
    add("--ranks", type=int, metavar="N", help="processes per node (one per GPU)")
    add("--run", metavar="DIR", help="folder of the checkpoints on each node (/scratch/$USER/NAME)")
    add("--store", metavar="URL", default="", help="folder in Blob storage for the checkpoints")
    add("--shared", action="store_true", help="all nodes see the folder of the checkpoints")
    add("--python", metavar="FILE", default="python3", help="interpreter with the recipe's packages (python3)")
    add("--image", metavar="NAME", default="", help="container image: NAME@sha256:DIGEST, or a file")
    add("--data", metavar="DIR", default="", help="folder of the data set on the nodes")
    add("--source", metavar="URL", default="", help="the data set in Blob storage, to be staged")
    add("--launcher", choices=LAUNCHERS, default="srun", help="what starts the ranks (srun)")
    add("--time", metavar="TIME", default="", help="Slurm's time limit")
    add("--partition", metavar="NAME", default="", help="Slurm's partition")
    add("--warn", type=int, metavar="S", default=300, help="seconds before the limit at which to save (300)")
    add("--steps", type=int, metavar="N", help="steps, in place of the size's")


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=int, metavar="N", help="processes per node (one per GPU)")


def _add_preflight(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_recipe(parser)
    _add_machine(parser)
    add("--job", metavar="DIR", default="", help="the job folder, for the record of the run")
    add("--run", metavar="DIR", required=True, help="folder of the checkpoints")
    add("--python", metavar="FILE", default="", help="interpreter to check")
    add("--image", metavar="NAME", default="", help="container image")
    add("--data", metavar="DIR", default="", help="folder of the data set")
    add("--shared", action="store_true", help="all nodes see the folder of the checkpoints")


def _add_job_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="DIR", help="the job folder: NAME-SIZE-JOBID where sbatch was called")
    parser.add_argument("--vm-size", metavar="SIZE", help="VM size of the nodes (this machine's)")
    _add_recipes(parser)
    _add_prices(parser)


def _add_end(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_job_folder(parser)
    add("--run", metavar="DIR", required=True, help="folder of the checkpoints")
    add("--status", type=int, metavar="N", required=True, help="exit status of the training")
    add("--refused", action="store_true", help="the preflight refused a node")
    add("--requeues", type=int, metavar="N", default=3, help="requeues after failures (3)")
    add("--dry-run", action="store_true", help="show the decision, change nothing")


ACTIONS = (
    Action("list", "show the recipes", _LIST, _add_recipes),
    Action("plan", "what fits, how fast it is, what it costs", _PLAN, _add_plan),
    Action("script", "print the batch script of a recipe", _SCRIPT, _add_script),
    Action("env", "print the variables of the ranks", _ENV, _add_env),
    Action("preflight", "check this node before a training", _PREFLIGHT, _add_preflight),
    Action("end", "decide about a restart", _END, _add_end),
    Action("report", "what a training reached", _REPORT, _add_job_folder),
)
