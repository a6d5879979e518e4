# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A machine's own lookups at slurmctld: which node it has a lease for, and which machine reports as a node."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.run import Run, must
from ..slurm.arbiter import observed
from ..slurm.node_queries import run_command
from ..slurm.nodes import NodeState, parse_nodes, parse_records
from .settings import FIELDS
from .slurmctld import lease_text


def find_lease(vm_id: str, controllers: Sequence[str], run: Run) -> NodeState | None:
    """Return the node that slurmctld shows with a lease for this machine; None if there is none.

    :raises CommandFailed: slurmctld does not answer, or does not accept this machine's credentials.
    """
    shown = must(run_command(controllers, ["scontrol", "--oneliner", "show", "nodes"], run)).stdout
    nodes = parse_nodes(shown)
    wanted = [f" {field}={lease_text(vm_id)}" for field in FIELDS]
    for name, record in parse_records(shown).items():
        text = f"{record.after_reason.rstrip()} " if record else ""
        if any(f"{one} " in text for one in wanted):
            return nodes[name]
    return None


def reporting_machine(name: str, controllers: Sequence[str], run: Run) -> str:
    """Return the vmId of the machine whose health report slurmctld has for a node; empty if there is none.

    :raises CommandFailed: slurmctld does not answer.
    """
    shown = run_command(controllers, ["scontrol", "--oneliner", "show", "node", name], run)
    found = observed.parse_nodes(shown.stdout).get(name) if shown.rc == 0 else None
    return found.report.vm_id if found and found.report else ""
