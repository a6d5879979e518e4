# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The actions of hpcnode train: what they do, and their options."""

from __future__ import annotations

import argparse

from ..sku.gpu_models import PRECISIONS
from ..train.catalog import MODELS
from ..train.model import RECOMPUTATIONS
from ..train.recipe import FOLDER
from ..train.script import HANG_S, LAUNCHERS
from .command import Action, suggest

DESCRIPTION = """\
Plans trainings of large models, and writes their batch scripts. These scripts call the other actions of 'hpcnode
train': the checks before the start, the environment of the ranks, the decision about a restart, and the report.

    hpcnode train plan --model 175B --nodes 32 --vm-size nd96amsr_A100_v4
    hpcnode train script fsdp --size tiny > fsdp.sbatch
    sbatch fsdp.sbatch

Recipes are installed by the role hpcai.azure.training.
"""
_LIST = """\
Shows the recipes with their sizes, and how each size was tested, or 'not run'.

Exit status: 0 good, 2 there are no recipes.
"""
_PLAN = """\
Calculates whether a training fits on nodes of a VM size, how it is divided, and what to expect: rate, duration, list
price, checkpoints. It changes nothing and needs no GPU. The model is a recipe's size (RECIPE --size SIZE), a published
one (--model), or given by its shape. The memory of a recipe that is no transformer is not calculated.

If the training does not fit, the answer states the fewest nodes on which it fits, and a layout that fits on the given
nodes. The expected rate is that of the most similar published training, whose source is shown. If no published training
is similar, the rate is unknown: give --tflops.

Exit status: 0 it fits, 1 it does not, 2 the VM size or the recipe is not known.
"""
_SCRIPT = """\
Prints a batch script for sbatch. It contains all that happens: preflight, stage, restore, watch, train, publish,
restart. Change it as you like.

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

Exit status: 0 no check failed (a check that could not find out does not count as failed), 1 a check failed, 2 the
recipe or the VM size is not known.
"""
_END = """\
Ends a run: finds out why it ended and how far it got, decides whether it starts again, prints the report, and requeues
or holds the job. A job that did not advance twice in a row, or whose error a restart would repeat, is held with the
reason. With --dry-run it only shows the decision.

Exit status: 0 the training finished or is requeued, 1 it is held, 2 there is no record of it.
"""
_REPORT = """\
Shows what a training reached: its rate against the expected one, the time that restarts lost, which node was slow.

Exit status: 0 good, 2 there is no record of it.
"""
_PROGRESS = """\
Reports to the watchdog ('hpcnode recover watch') that the training has completed a step. Call it from one rank, every
few steps. It writes a file in the folder where the job was submitted, which all nodes must see.

--saved reports that a complete checkpoint of this step exists, but not in a store. It is noted in the job's comment, so
that the recovery and 'hpcnode goodput' know what the run has kept. 'hpcnode recover watch --checkpoints' does the same.

Exit status: 0 good, 1 slurmctld does not answer or refuses, 3 wrong usage.
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
    add("--prices", metavar="FILE", help="price file, for the list price; for a script, one that all nodes see")
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
        ("vocabulary", "size of the vocabulary"),
        ("kv-heads", "heads of keys and values, if fewer than --heads"),
        ("ffn", "inner size of the feed-forward layers, if not 4 times hidden"),
        ("micro-batch", "samples that a replica computes at once (the recipe's)"),
        ("batch", "samples of a step (the recipe's)"),
        ("tensor", "degree of tensor parallelism (the recipe's, or 1)"),
        ("pipeline", "degree of pipeline parallelism (the recipe's, or 1)"),
        ("interleave", "parts of the model per pipeline stage (the recipe's, or 1)"),
    ):
        add(f"--{name}", type=int, metavar="N", help=words)
    add("--zero", type=int, metavar="N", help="stage of ZeRO, 0 to 3; 3 is also FSDP (the recipe's, or 0)")
    add("--recomputation", choices=RECOMPUTATIONS, help="what the backward pass computes again (full)")
    for name, words in (
        ("gated", "the feed-forward layers are gated (SwiGLU)"),
        ("flash", "attention never stores the matrix of all pairs"),
        ("sequence-parallel", "norms and dropout are divided along the sequence"),
        ("distributed-optimizer", "Megatron's distributed optimizer"),
        ("offload-optimizer", "the optimizer is in host memory"),
        ("offload-activations", "activations are in host memory"),
        ("offload-nvme", "the optimizer is on local disks"),
        ("fp32-gradients", "gradients are in fp32"),
    ):
        add(f"--{name}", action="store_true", default=None, help=words)
    add("--tokens", type=float, metavar="N", help="tokens of the complete training, such as 300e9 (the recipe's)")
    add("--tflops", type=float, metavar="X", help="rate of each GPU in TFLOP/s, instead of the published one")
    add("--peak", choices=PRECISIONS, help="the MFU is a part of this precision's peak (bf16; fp16 on GPUs without it)")
    add("--node-gbps", type=float, metavar="X", help="rate of a node to the storage account in Gbit/s (the VM size's)")
    add("--account-gbps", type=float, metavar="X", help="limit of the storage account in Gbit/s (none)")
    add("--node-hours", type=float, metavar="H", help="mean node-hours between failures (6300)")
    add("--data-gb", type=float, metavar="X", help="size of the staged data set in GB (the recipe's)")
    _add_prices(parser)


def _add_script(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_recipe(parser)
    _add_machine(parser)
    add("--ranks", type=int, metavar="N", help="processes per node (one per GPU)")
    add("--run", metavar="DIR", help="folder of the checkpoints on each node (/scratch/$USER/NAME-SIZE-JOBID)")
    add("--store", metavar="URL", default="", help="folder in Blob storage for the checkpoints")
    add("--shared", action="store_true", help="all nodes see the folder of the checkpoints")
    add("--python", metavar="FILE", default="", help="interpreter with the recipe's packages (python3)")
    add(
        "--image",
        metavar="NAME",
        default="",
        help="container image: (NAME or FILE)@sha256:DIGEST, or FILE (the recipe's)",
    )
    add("--data", metavar="DIR", default="", help="folder of the data set on the nodes")
    add("--source", metavar="URL", default="", help="the data set in Blob storage, to be staged")
    add("--data-shared", action="store_true", help="all nodes see the folder --data, so each stages a share of it")
    add("--sums", metavar="FILE", default="", help="SHA-256 sums of the data set, which must agree (the recipe's)")
    add("--sign", action="store_true", help="sign checkpoints, and restore only signed ones")
    add("--launcher", choices=LAUNCHERS, default="srun", help="what starts the ranks (srun)")
    add("--time", metavar="TIME", default="", help="Slurm's time limit (the partition's)")
    add("--partition", metavar="NAME", default="", help="Slurm's partition (its default)")
    add("--warn", type=int, metavar="S", default=300, help="seconds before the time limit at which to save (300)")
    add(
        "--hang",
        type=int,
        metavar="S",
        default=HANG_S,
        help="end the training after this many seconds without a step; 0: never (1800)",
    )
    add("--steps", type=int, metavar="N", help="number of steps (the size's)")
    add(
        "--save-every",
        type=int,
        metavar="N",
        help="steps between checkpoints (those of the plan; the size's if the plan has no expected rate)",
    )
    add("--requeues", type=int, metavar="N", help="most requeues after failures (3)")
    _add_prices(parser)


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
    add("--staged", action="store_true", help="the data set is staged after this check")
    add("--sums", metavar="FILE", default="", help="SHA-256 sums of the data set")
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
    add("--requeues", type=int, metavar="N", default=3, help="most requeues after failures (3)")
    add("--dry-run", action="store_true", help="show the decision, change nothing")


def _add_progress(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("step", metavar="STEP", type=int, help="the last completed step")
    add("--saved", action="store_true", help="a complete checkpoint of this step exists, outside of a store")
    add("--file", metavar="FILE", help="the file to write (hpcai-progress-JOB where sbatch was called)")


ACTIONS = (
    Action("list", "show the recipes", _LIST, _add_recipes),
    Action("plan", "show what fits, how fast it is, what it costs", _PLAN, _add_plan),
    Action("script", "print the batch script of a recipe", _SCRIPT, _add_script),
    Action("env", "print the variables of the ranks", _ENV, _add_env),
    Action("preflight", "check this node before a training", _PREFLIGHT, _add_preflight),
    Action("progress", "report a completed step", _PROGRESS, _add_progress),
    Action("end", "decide about a restart", _END, _add_end),
    Action("report", "show what a training reached", _REPORT, _add_job_folder),
)
