# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The batch script of a training. It contains all that happens, so its user can read and change it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from .model import Model
from .recipe import FOLDER, Recipe, Size
from .record import CONTINUE

SRUN, MPIRUN = LAUNCHERS = ("srun", "mpirun")
_WIDTH = 110
HANG_S = 1800
"""As long as NCCL's own limit for a collective, and longer than any checkpoint takes."""
_SETTLE_S = 60
_DECIDE_S = 90
"""Before the time limit, for what follows the upload of the last checkpoint: archive, report and the requeue."""


@dataclass(frozen=True)
class ScriptOptions:
    """What a script needs beside the recipe.

    :ivar size: name of the size.
    :ivar nodes: number of nodes.
    :ivar gpus: GPUs of a node; 0 for a training on CPUs.
    :ivar ranks: processes of a node.
    :ivar run: folder of the checkpoints, on each node's own disks; ``$USER`` is replaced when the script runs.
    :ivar store: folder in Blob storage for the checkpoints; empty to keep them on the nodes only.
    :ivar shared: whether all nodes see ``run``.
    :ivar python: the interpreter.
    :ivar image: a container image; empty for none.
    :ivar data: folder of the data set on the nodes; empty for synthetic data.
    :ivar data_shared: whether all nodes see ``data``.
    :ivar source: the data set in Blob storage; empty if it is there already.
    :ivar sums: file with the SHA-256 of each file of the data set; empty to accept what is there.
    :ivar signed: whether checkpoints are signed, and only signed ones are restored.
    :ivar launcher: one of ``LAUNCHERS``.
    :ivar time: Slurm's time limit; empty for the partition's.
    :ivar partition: the partition; empty for the default.
    :ivar warn_s: how long before the time limit the training saves and ends.
    :ivar hang_s: end the training when it completes no step for this time, in seconds; 0 to wait for ever.
    :ivar steps: replaces the steps of the size; None keeps them.
    :ivar save_every: steps between checkpoints; None for the size's.
    :ivar requeues: the maximum number of requeues after failures; None for the default of ``train end``.
    :ivar prices: words for ``train end`` and ``train report`` that name the price of a node; empty for no cost.
    :ivar folder: where recipes and trainers are on the nodes.
    """

    size: str
    nodes: int
    gpus: int
    ranks: int
    run: str
    store: str = ""
    shared: bool = False
    python: str = "python3"
    image: str = ""
    data: str = ""
    data_shared: bool = False
    source: str = ""
    sums: str = ""
    signed: bool = False
    launcher: str = SRUN
    time: str = ""
    partition: str = ""
    warn_s: int = 300
    hang_s: int = HANG_S
    steps: int | None = None
    save_every: int | None = None
    requeues: int | None = None
    prices: tuple[str, ...] = ()
    folder: str = FOLDER


def render(recipe: Recipe, options: ScriptOptions) -> str:
    """Return the script."""
    size = recipe.size(options.size)
    parts = (
        _head(recipe, options),
        _setting(recipe, options),
        _preflight(recipe, options),
        _stage(options),
        _restore(recipe, options),
        _leave_before_limit(),
        _watch(recipe, options),
        _watchdog(options),
        _train(recipe, size, options),
        _ending(recipe, options),
    )
    return "\n".join("\n".join(part) for part in parts if part) + "\n"


def trainer_arguments(size: Size, steps: int | None = None, save_every: int | None = None) -> list[str]:
    """Return the trainer's options for a size: the shape, the layout, the batch, and its own ones."""
    found = [f"--steps={steps or size.steps}", f"--save-every={save_every or size.save_every}"]
    found.append(f"--micro-batch={size.micro_batch}")
    if size.batch:
        found.append(f"--batch={size.batch}")
    found.append(f"--device={size.device}")
    if size.model is not None:
        found += _of_model(size.model)
    layout = size.layout
    for field in fields(layout):
        value, default = getattr(layout, field.name), field.default
        if value != default:
            name = field.name.replace("_", "-")
            found.append(f"--{name}" if value is True else f"--{name}={value}")
    return [*found, *(f"--{name}={value}" for name, value in size.arguments.items())]


def _of_model(model: Model) -> Iterator[str]:
    for field in fields(model):
        value = getattr(model, field.name)
        if value is True:
            yield f"--{field.name}"
        elif value not in (None, False):
            yield f"--{field.name.replace('_', '-')}={value}"


def _head(recipe: Recipe, options: ScriptOptions) -> list[str]:
    name = f"{recipe.name}-{options.size}"
    directives = [
        f"--job-name={name}",
        f"--nodes={options.nodes}",
        "--exclusive",
        *([f"--gpus-per-node={options.gpus}"] if options.gpus else []),
        *([f"--partition={options.partition}"] if options.partition else []),
        *([f"--time={options.time}"] if options.time else []),
        # A requeued job continues its log; the batch shell gets the signal and passes it on.
        "--requeue",
        "--open-mode=append",
        f"--signal=B:USR1@{options.warn_s}",
        f"--output={name}-%j.log",
    ]
    return [
        "#!/bin/bash",
        f"# {recipe.summary}: {recipe.name}, size {options.size}. Written by 'hpcnode train script'.",
        "# It contains all steps, so you can change them. Start it with sbatch, in a folder that all nodes see.",
        *(f"#SBATCH {directive}" for directive in directives),
        "set -u",
        "",
    ]


def _setting(recipe: Recipe, options: ScriptOptions) -> list[str]:
    where = "seen by all nodes" if options.shared else "on the disks of each node"
    lines = [
        f'run="{options.run}"  # checkpoints, {where}',
        "# Records and progress, seen by all nodes. Others may be able to write to the folder where sbatch was called,",
        "# so only an own folder is used; a server that maps users shows root or nobody (65534) as its owner.",
        f'job="$SLURM_SUBMIT_DIR/{recipe.name}-{options.size}-$SLURM_JOB_ID"',
        '[ -e "$job" ] || [ -L "$job" ] || (umask go-w; mkdir "$job")',
        'if [ -z "$(find "$job" -maxdepth 0 -type d \\( -uid "$UID" -o -uid 0 -o -uid 65534 \\))" ]; then',
        '    echo "$job is not your folder: have it removed, or submit from a folder that only you can write to" >&2',
        "    exit 1",
        "fi",
        'rm -f "$job"/near-limit "$job"/notice-* "$job"/errors "$job"/progress',
        # In Slurm 22.05.8 (step_layout_create in src/slurmctld/step_mgr.c), a step with --overlap fails while slurmctld
        # still counts the memory of an ended step without it. So all have it, also that of mpirun.
        "# All steps share the job's CPUs and memory.",
        "export SLURM_OVERLAP=1",
        'each_node=(srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --kill-on-bad-exit=0)',
    ]
    if options.store:
        lines.append(f"export HPCAI_CHECKPOINT_STORE={shlex.quote(options.store)}")
    end = ['--run "$run"', *([] if options.requeues is None else [f"--requeues {options.requeues}"]), '--status "$@"']
    return [
        *lines,
        "",
        "# A warning before the time limit goes to what runs then. Nothing may pass the limit: Slurm would kill this",
        "# script before it decides about a restart.",
        "running=",
        'trap \'touch "$job/near-limit"; [ -z "$running" ] || kill -USR1 "$running"\' USR1',
        "",
        "# Waits for a process, also when a signal interrupts it, and returns its status. $1: its id.",
        "await() {",
        '    wait "$1"; local status=$?',
        '    while kill -0 "$1" 2>/dev/null; do wait "$1"; status=$?; done',
        "    running=",
        '    return "$status"',
        "}",
        "",
        "# Decides about a restart, prints the report, and ends. $1: exit status, then options of 'train end'.",
        "finish() {",
        "    # Slurm terminates this script when it is requeued, and then kills what it has started.",
        "    trap '' TERM",
        *_archive(recipe, options),
        f"    {_wrap(['hpcnode train end', *_reported(options), *end])}",
        '    exit "$1"',
        "}",
        "",
        "# MASTER_ADDR and MASTER_PORT, the interface, and the CPUs of each rank.",
        "for try in 1 2 3 4 5 6; do",
        f"    variables=$(hpcnode train env --ranks {options.ranks}) && break",
        "    # slurmctld may not answer for a moment.",
        '    [ "$try" -lt 6 ] || finish 1',
        "    sleep 20",
        "done",
        'eval "$variables"',
        "",
    ]


def _reported(options: ScriptOptions) -> list[str]:
    """Return words of the commands that make the report."""
    return ['"$job"', f"--recipes {shlex.quote(options.folder)}", *map(shlex.quote, options.prices)]


def _archive(recipe: Recipe, options: ScriptOptions) -> list[str]:
    """Return lines that keep log and report beside the checkpoints, before a requeue ends the script."""
    if not options.store:
        return []
    return [
        f'    {_wrap(["hpcnode train report", *_reported(options)])} > "$job/report.txt"',
        '    local most=600; [ ! -e "$job/near-limit" ] || most=30',
        # A TERM would be ignored, as by this function.
        '    timeout --signal=KILL "$most" hpcnode checkpoint archive "$job" \\',
        f'        "$SLURM_SUBMIT_DIR/{recipe.name}-{options.size}-$SLURM_JOB_ID.log"',
    ]


def _preflight(recipe: Recipe, options: ScriptOptions) -> list[str]:
    words = [f"hpcnode train preflight {recipe.name} --size {options.size}", '--job "$job" --run "$run"']
    words.append(f"--recipes {shlex.quote(options.folder)}")
    words += [f"--image {shlex.quote(options.image)}"] if options.image else [f"--python {shlex.quote(options.python)}"]
    words += [f"--data {shlex.quote(options.data)}"] if options.data else []
    words += [f"--sums {shlex.quote(options.sums)}"] if options.sums else []
    words += ["--shared"] if options.shared else []
    words += ["--staged"] if options.source else []
    return [
        "# Preflight: health, memory, disk, trainer, image and data of the job's nodes.",
        f'"${{each_node[@]}}" {_wrap(words)} 2> >(tee "$job/errors" >&2) || finish $? --refused',
        "",
    ]


def _stage(options: ScriptOptions) -> list[str]:
    if not options.source:
        return []
    words = ["hpcnode stage run", f"--source {shlex.quote(options.source)}", f"--target {shlex.quote(options.data)}"]
    words += [] if options.data_shared else ["--all"]
    words += [f"--sums {shlex.quote(options.sums)}"] if options.sums else []
    share = "its share" if options.data_shared else "all files"
    return [
        f"# Stage the data: each node copies {share}, or continues what a killed run left.",
        f'"${{each_node[@]}}" {_wrap(words)} &',
        'running=$!; await "$running" || finish $?',
        "",
    ]


def _restore(recipe: Recipe, options: ScriptOptions) -> list[str]:
    if not options.store:
        return []
    words = ['hpcnode checkpoint restore --to "$run"']
    words += [f"--latest-file {recipe.latest_file}"] if recipe.latest_file else []
    if options.shared:
        words.append("--shared")
    elif recipe.any_nodes:
        words.append("--all" if recipe.sharded else "--any-part")
    words += ["--signed"] if options.signed else []
    return [
        "# Restore the newest complete checkpoint. If there is none, this does nothing.",
        f'"${{each_node[@]}}" {_wrap(words)} &',
        'running=$!; await "$running" || finish $?',
        "",
    ]


def _leave_before_limit() -> list[str]:
    return [
        "# If the time limit is near already, the next run trains.",
        f'[ ! -e "$job/near-limit" ] || finish {CONTINUE}',
        "",
    ]


def _watch(recipe: Recipe, options: ScriptOptions) -> list[str]:
    if not options.store:
        return []
    watch = [f'hpcnode checkpoint watch "$run" --signal {recipe.signal}', "--keep-last 2", *_about(options)]
    watch += [f"--latest-file {recipe.latest_file}"] if recipe.signal == "latest" else []
    watch += ["--shared"] if options.shared else []
    return [
        "# Upload each finished checkpoint while the training continues.",
        f'"${{each_node[@]}}" {_wrap(watch)} &',
        "watcher=$!",
        "",
    ]


def _watchdog(options: ScriptOptions) -> list[str]:
    if not options.hang_s:
        return []
    words = ['hpcnode recover watch --file "$job/progress"', f"--limit {options.hang_s}"]
    words.append(f"--settle {min(options.hang_s, _SETTLE_S)}")
    # Checkpoints in a store are known without a note.
    words += [] if options.store else ['--checkpoints "$run"']
    return [
        f"# End a training that hangs: no step for {options.hang_s} s, and for ten times the longest pause so far.",
        f'"${{each_node[@]}}" {_wrap(words)} &',
        "watchdog=$!",
        "",
    ]


def _train(recipe: Recipe, size: Size, options: ScriptOptions) -> list[str]:
    trainer = shlex.quote(f"{options.folder}/trainers/{recipe.trainer}")
    arguments = trainer_arguments(size, options.steps, options.save_every)
    program = [
        f"{shlex.quote(options.python)} {trainer}",
        '--run="$run" --job="$job"',
        *(["--shared"] if options.shared else []),
        *([f"--data={shlex.quote(options.data)}"] if options.data else []),
        *map(shlex.quote, arguments),
    ]
    if options.launcher == MPIRUN:
        # The trainer binds each rank to its CPUs; Slurm starts mpirun's daemons, so no ssh is needed.
        launch = [
            f'mpirun -np "$((SLURM_JOB_NUM_NODES * {options.ranks}))" --map-by ppr:{options.ranks}:node --bind-to none',
            "--mca coll_hcoll_enable 0 -x MASTER_ADDR -x MASTER_PORT -x HPCAI_CPU_MASKS",
            "${GLOO_SOCKET_IFNAME:+-x GLOO_SOCKET_IFNAME}",
        ]
    else:
        launch = [
            f'srun --ntasks-per-node={options.ranks} --ntasks="$((SLURM_JOB_NUM_NODES * {options.ranks}))"',
            '--kill-on-bad-exit=1 ${HPCAI_CPU_BIND:+"$HPCAI_CPU_BIND"}',
        ]
    if options.image:
        mounts = shlex.quote(",".join(filter(None, ("", options.folder, options.data))))
        # The preflight has compared the digest of a file, which pyxis does not know.
        image = options.image.partition("@sha256:")[0] if options.image.startswith("/") else options.image
        launch.append(f'--container-image={shlex.quote(image)} --container-mounts="$run,$job,"{mounts}')
    return [
        f"# Train: {options.ranks} {'process' if options.ranks == 1 else 'processes'} per node. If one rank dies, "
        "all end. A warning before the time",
        "# limit is passed on; the training then saves and ends with status 75.",
        f'{_wrap([*launch, *program])} 2> >(tee -a "$job/errors" >&2) &',
        'running=$!; await "$running"; status=$?',
        "",
    ]


def _about(options: ScriptOptions) -> list[str]:
    return ['--lineage "$job/lineage.json"', *(["--sign"] if options.signed else [])]


def _ending(recipe: Recipe, options: ScriptOptions) -> list[str]:
    lines = []
    if options.hang_s:
        lines += ['kill -TERM "$watchdog" 2>/dev/null; wait "$watchdog"', ""]
    if options.store:
        words = ['hpcnode checkpoint watch "$run" --once', f"--signal {recipe.signal}", *_about(options)]
        words += [f"--latest-file {recipe.latest_file}"] if recipe.signal == "latest" else []
        words += ["--shared"] if options.shared else []
        words += [f'--near-limit "$job/near-limit" --within {options.warn_s - min(_DECIDE_S, options.warn_s // 2)}']
        lines += [
            "# End the watcher, and publish what it had not finished. Near the time limit, leave time to decide.",
            'kill -TERM "$watcher" 2>/dev/null; wait "$watcher"',
            f'"${{each_node[@]}}" {_wrap(words)} &',
            'if ! await "$!" && [ "$status" -eq 0 ]; then',
            '    echo "The training has finished, but its last checkpoint is not complete in the store." >&2; status=1',
            "fi",
            "",
        ]
    return [*lines, "# Restart or hold, with the report.", 'finish "$status"']


def _wrap(words: Sequence[str]) -> str:
    """Return words on lines that fit."""
    lines, line = [], words[0]
    for word in words[1:]:
        if len(line) + len(word) > _WIDTH:
            lines.append(line)
            line = f"    {word}"
        else:
            line = f"{line} {word}"
    return " \\\n".join([*lines, line])
