# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the processes of a training need to find each other, and where each of them runs: for ``eval`` in a job script.

The first node is named by its address: Slurm's node name is no host name, and its own host name is a loopback address
on many distributions. torchrun's rendezvous over c10d fails for the same reason; srun starts the ranks, so none is
needed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ..forms import ConfigError
from ..machine.run import Run, must
from ..pinning.advise import advise
from ..pinning.layout import Layout
from ..slurm.hostlist import expand
from ..slurm.node_queries import parse_addresses

_FIRST_PORT, _PORTS = 15000, 15000
"""Below Linux's ephemeral ports, which begin at 32768."""


class NoJob(ConfigError):
    """This is not a Slurm job, or slurmctld does not know its nodes; the message says which."""


def job_nodes(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the job's nodes.

    :raises NoJob: there is no job.
    """
    listed = environment.get("SLURM_JOB_NODELIST", "")
    if not listed or not environment.get("SLURM_JOB_ID", "").isdecimal():
        raise NoJob("This is not a Slurm job: call it in a script that sbatch started.")
    return expand(listed)


def addresses(names: Sequence[str], run: Run) -> dict[str, str]:
    """Return the addresses of nodes, as slurmctld knows them.

    :raises CommandFailed: slurmctld does not answer.
    """
    words = ["sinfo", "--noheader", "--all", "--Node", f"--nodes={','.join(names)}", "--format=%N %o"]
    return parse_addresses(must(run(words)).stdout)


def interface(address: str, run: Run) -> str:
    """Return the name of this machine's interface with an address; empty if it has none."""
    found = re.findall(
        r"^\d+:\s+([^\s:@]+)\s+inet\s+([0-9.]+)/", run(["ip", "-o", "-4", "address", "show"]).stdout, re.M
    )
    return next((name for name, own in found if own == address), "")


def masks(layout: Layout, ranks: int | None) -> list[str]:
    """Return the CPU mask of each rank of a node, in hexadecimal without a prefix.

    :raises AdviceError: the ranks do not fit.
    """
    return [placement.cpus.as_mask() for placement in advise(layout, ranks).placements]


def variables(
    environment: Mapping[str, str], run: Run, layout: Layout | None, ranks: int | None
) -> tuple[dict[str, str], list[str]]:
    """Return the variables to export, and what is unknown, one sentence each.

    :param layout: the nodes' layout; None if unknown, then there are no masks.
    :param ranks: ranks per node; None for one per GPU.
    :raises NoJob: there is no job, or slurmctld does not know the first node's address.
    :raises CommandFailed: slurmctld does not answer.
    :raises AdviceError: the ranks do not fit.
    """
    names = job_nodes(environment)
    known = addresses(names, run)
    first = known.get(names[0], "")
    if not first:
        raise NoJob(f"slurmctld does not know the address of {names[0]}: see 'scontrol show node {names[0]}'.")
    port = _FIRST_PORT + int(environment["SLURM_JOB_ID"]) % _PORTS
    found = {"MASTER_ADDR": first, "MASTER_PORT": str(port)}
    notes = []
    # gloo binds the address of the own host name, which may be a loopback address.
    own = interface(first, run)
    if own:
        found["GLOO_SOCKET_IFNAME"] = own
    else:
        notes.append(f"No interface of this machine has the address {first}: GLOO_SOCKET_IFNAME is not set.")
    # CUDA numbers GPUs by speed otherwise, and masks and rails are in the order of the PCI addresses.
    found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if layout is None:
        notes.append("The layout of this machine is unknown: there are no CPU masks.")
        return found, notes
    placed = masks(layout, ranks)
    found["HPCAI_RANKS_PER_NODE"] = str(len(placed))
    found["HPCAI_CPU_MASKS"] = ",".join(placed)
    found["HPCAI_CPU_BIND"] = f"--cpu-bind=mask_cpu:{','.join(placed)}"
    return found, notes


def exports(found: Mapping[str, str]) -> str:
    """Return lines for ``eval`` in a shell."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in found.items())
