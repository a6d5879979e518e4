#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nccl_pairs
short_description: Find the node that spoils NCCL collectives over several nodes
version_added: "0.1.0"
description:
  - Runs C(all_reduce_perf) of nccl-tests by C(srun) over pairs of nodes, all pairs at once. A node of a pair that fails
    is tried again with good nodes, until it is plain which node is bad, or which link between two good ones.
  - Where all pairs work, all nodes together are tried. If that fails, they are halved until no smaller group fails.
  - A run fails if it breaks, hangs, computes wrong values or is slower than O(limit). A run that did not start says
    nothing of the nodes.
  - Nodes with jobs, and nodes on which Slurm starts none, are left out. Nothing is killed and nothing is drained.
  - Runs where C(srun) works, which is normally on the controller or a login node.
author:
  - hpcai.azure contributors (@hpcai)
options:
  nodes:
    description: Slurm's names of the nodes, neighbours in the network next to each other. Host lists are expanded.
    type: list
    elements: str
    required: true
  gpus:
    description: GPUs of a node. By default those that O(vm_size) has.
    type: int
  vm_size:
    description: The VM size, for the defaults of O(gpus) and O(limit).
    type: str
  limit:
    description:
      - The bus bandwidth in GB/s that two nodes must reach. By default the one that is known of O(vm_size) with
        messages of O(size).
      - Without any limit only runs that break count as failed.
    type: float
  size:
    description: The message size.
    type: str
    default: 8G
  program:
    description: Where C(all_reduce_perf), built with MPI, is on the nodes.
    type: path
    default: /opt/nccl-tests/build/all_reduce_perf
  timeout:
    description: Seconds that one run may take. Before it, C(srun) waits up to a minute for the nodes.
    type: int
    default: 300
  mpi:
    description: How Slurm starts the ranks, C(srun)'s C(--mpi).
    type: str
    default: pmix
  srun_options:
    description:
      - Further options for C(srun), for example a partition or a reservation. They count where they contradict the
        module's own.
    type: list
    elements: str
    default: []
  environment:
    description: Further environment variables of the program.
    type: dict
    default: {}
  known_good:
    description: Nodes that are known to be good, to compare with. They must be free too.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Says which nodes would be left out, and runs nothing.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Never reports a change.
  platform:
    description: Works with Slurm 21.08 and later.
"""

EXAMPLES = r"""
- name: Find the bad one among four nodes
  hpcai.azure.nccl_pairs:
    nodes: ["compute-[0-3]"]
    vm_size: Standard_ND96asr_v4
    srun_options: [--partition=compute]
  register: pairs
  failed_when: pairs.bad | length > 0
"""

RETURN = r"""
words:
  description: The result in one line.
  returned: success
  type: str
  sample: compute-3 fails with each node tried
bad:
  description: Nodes that fail with whomever.
  returned: success
  type: list
  elements: str
  sample: [compute-3]
good:
  description: Nodes that took part in a run that worked.
  returned: success
  type: list
  elements: str
  sample: [compute-0, compute-1, compute-2]
links:
  description: Pairs of good nodes that fail with each other, and only so.
  returned: success
  type: list
  elements: list
  sample: []
groups_failing:
  description: Groups of good nodes that fail together, though no smaller group of them was seen to.
  returned: success
  type: list
  elements: list
  sample: []
unclear:
  description: Nodes of which neither can be said.
  returned: success
  type: list
  elements: str
  sample: []
left_out:
  description: Nodes that were not measured, with the reason.
  returned: success
  type: dict
  sample: {"compute-9": "jobs run there: 4711 (alice, running)"}
limit:
  description: The bus bandwidth in GB/s that two nodes had to reach.
  returned: success
  type: float
  sample: 175.0
rounds:
  description: How many rounds of runs there were.
  returned: success
  type: int
  sample: 2
trials:
  description: All runs, each with its nodes, verdict, bus bandwidth in GB/s, and what was wrong.
  returned: success
  type: list
  elements: dict
  sample:
    - nodes: [compute-0, compute-1]
      verdict: pass
      value: 187.3
      why: ""
lines:
  description: The same for people, a line for each run.
  returned: success
  type: list
  elements: str
  sample: ["compute-[0-1]: pass, 187.3 GB/s"]
"""

import math
from dataclasses import asdict
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import pair_search
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.nccl_tests import size_in_bytes
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize, find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import job_control, nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError, expand

THRESHOLD = "nccl_allreduce_internode"
NOTHING: dict[str, Any] = {
    "bad": [],
    "good": [],
    "links": [],
    "groups_failing": [],
    "unclear": [],
    "trials": [],
    "lines": [],
}


def read_wanted(params: dict[str, Any]) -> pair_search.RunOptions:
    """Return how to measure.

    :raises ValueError: it is not known how many GPUs a node has, or a value is none.
    """
    size_in_bytes(params["size"])
    size = find_size(params["vm_size"]) if params["vm_size"] else None
    gpus = params["gpus"] if params["gpus"] is not None else (size.gpu_count if size else None)
    if params["limit"] is not None and not 0 < params["limit"] < math.inf:
        raise ValueError(f"limit is {params['limit']!r}: give GB/s above 0, or leave it out")
    if gpus is None or gpus < 1:
        raise ValueError("say how many GPUs a node has: by gpus, or by a vm_size that has some")
    known = size.thresholds.get(THRESHOLD) if size else None
    if known and params["size"] not in known.at.replace(",", " ").split():
        # It was found with messages of another size.
        known = None
    return pair_search.RunOptions(
        gpus,
        params["program"],
        params["size"],
        params["limit"] if params["limit"] is not None else (known.limit if known else None),
        params["timeout"],
        params["mpi"],
        tuple(params["srun_options"]),
        {str(name): str(value) for name, value in params["environment"].items()},
    )


def measure(module: AnsibleModule) -> dict[str, Any]:
    """Leave out what cannot be measured, and measure the others."""
    wanted = read_wanted(module.params)
    names = list(dict.fromkeys(name for word in module.params["nodes"] for name in expand(word)))
    good = list(dict.fromkeys(name for word in module.params["known_good"] for name in expand(word)))
    known = nodes.read_nodes(run)
    asked = list(dict.fromkeys([*names, *good]))
    jobs = job_control.jobs_on([name for name in asked if name in known], run)
    out = pair_search.unavailable_nodes(known, jobs, asked)
    common = {"left_out": out, "limit": wanted.at_least}
    free, free_good = ([name for name in those if name not in out] for those in (names, good))
    if len({*free, *free_good}) < 2:
        reasons = "; ".join(f"{name}: {why}" for name, why in out.items())
        raise ValueError(f"fewer than two nodes can be measured. {reasons or 'Give two nodes at least'}")
    if module.check_mode:
        return {**NOTHING, **common, "rounds": 0, "words": f"{len(free)} nodes would be measured"}
    found = pair_search.search(free, wanted, run, free_good)
    return {
        **common,
        "words": found.step.words,
        "bad": list(found.step.bad),
        "good": list(found.step.good),
        "links": [list(link) for link in found.step.links],
        "groups_failing": [list(group) for group in found.step.groups_failing],
        "unclear": list(found.step.unclear),
        "rounds": found.rounds,
        "trials": [asdict(trial) for trial in found.trials],
        "lines": [pair_search.in_words(trial) for trial in found.trials],
    }


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "gpus": {"type": "int"},
            "vm_size": {"type": "str"},
            "limit": {"type": "float"},
            "size": {"type": "str", "default": "8G"},
            "program": {"type": "path", "default": pair_search.PROGRAM},
            "timeout": {"type": "int", "default": 300},
            "mpi": {"type": "str", "default": "pmix"},
            "srun_options": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "known_good": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        answer = measure(module)
    except (CommandFailed, HostlistError, UnknownVmSize, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
