# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The command of a run: an exclusive job on exactly these nodes, with one step."""

from __future__ import annotations

from collections.abc import Sequence

from ..pinning.advise import AdviceError, advise
from ..pinning.launch import CPU_BIND, launch
from ..pinning.layout import UnknownLayout, layout_of_size
from ..setup.nccl.conf import SettingsError
from ..setup.nccl_environment.files import variables
from .benchmark import Options, Step

JOB_NAME = "hpcai-bench"
WAIT_S = 60
"""How long a run may wait for its nodes, in seconds: the epilog of the run before may still be running."""


def command(nodes: Sequence[str], step: Step, options: Options, limit_s: int) -> list[str]:
    """Return the command line of a run.

    salloc makes the job, because only in a job that has all CPUs may srun use masks: ``srun --exclusive`` would give
    the step one CPU per task.

    :param limit_s: timeout of the program, from which the job's time limit follows. The job may wait WAIT_S longer for
        its nodes.
    """
    job = [
        f"--nodes={len(nodes)}",
        f"--nodelist={','.join(nodes)}",
        "--exclusive",
        # --exclusive alone gives only the memory of DefMemPerCPU and the like.
        "--mem=0",
        # In minutes. Without it, Slurm would assume the partition's time limit, and could not start the job before a
        # reservation.
        f"--time={-(-limit_s // 60) + 2}",
        f"--immediate={WAIT_S}",
        f"--job-name={JOB_NAME}",
        *([f"--gpus-per-node={options.gpus}"] if options.gpus else []),
        *options.slurm,
    ]
    container = [f"--container-image={options.container}"] if options.container else []
    container += [f"--container-mounts={options.mounts}"] if options.container and options.mounts else []
    srun = [f"--ntasks-per-node={step.tasks}", f"--mpi={options.mpi}", "--kill-on-bad-exit=1", *step.srun, *container]
    variables = {**step.environment, **options.environment}
    environment = ["env", *(f"{name}={value}" for name, value in sorted(variables.items()))] if variables else []
    return ["salloc", "--quiet", *job, "srun", *srun, *environment, *step.program]


def masks(options: Options, tasks: int) -> tuple[str, ...]:
    """Return srun's option that pins the tasks of a node near their GPUs; none if the layout is not known."""
    if options.size is None or not options.size.gpus:
        return ()
    try:
        return launch(advise(layout_of_size(options.size), tasks), CPU_BIND).arguments
    except (AdviceError, UnknownLayout):
        return ()


_HPCX = (
    "for folder in /opt/hpcx*/ompi/lib /opt/hpcx*/nccl_rdma_sharp_plugin/lib /opt/hpcx*/sharp/lib; do "
    'if [ -d "$folder" ]; then LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; fi; done; '
    "export LD_LIBRARY_PATH; "
)
"""On each node, HPC-X and its plugins come first if they are installed: Microsoft prefers HPC-X for MPI."""
_ONE_LOG = 'test "$SLURM_PROCID" = 0 || export NCCL_DEBUG=WARN; '
"""Only the first rank logs, because each of a thousand ranks would write two hundred lines."""


def by_shell(program: Sequence[str], options: Options, one_log: bool = False) -> tuple[str, ...]:
    """Return the words that start a program of MPI on a node: with HPC-X if the node has it.

    A container has its own MPI.
    """
    script = ("" if options.container else _HPCX) + (_ONE_LOG if one_log else "") + 'exec "$@"'
    return ("sh", "-c", script, "sh", *program)


def mpi_variables(options: Options, starts_only: bool) -> dict[str, str]:
    """Return the variables of MPI for the VM size (Microsoft's article on ND A100 v4, azhpc-images).

    :param starts_only: MPI only starts the processes, and NCCL transfers the data.
    """
    if options.size is None:
        return {"OMPI_MCA_coll_hcoll_enable": "0"}
    try:
        found = variables(options.size, starts_only, {})
    except SettingsError:
        found = {}
    found["OMPI_MCA_coll_hcoll_enable"] = "0"
    if options.size.hca_count:
        found.update(OMPI_MCA_pml="ucx", OMPI_MCA_btl="^openib,smcuda")
    return found
