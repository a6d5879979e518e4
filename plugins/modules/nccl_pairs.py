#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nccl_pairs
short_description: Find the node or link that makes NCCL collectives over several nodes fail
version_added: "0.1.0"
description:
  - Divides the nodes into pairs, and runs C(all_reduce_perf) of nccl-tests with C(srun) on up to 32 pairs at a time.
    The nodes of a failed pair are tested again with good nodes, until the bad node, or the bad link between two good
    nodes, is identified.
  - If all pairs work, tests all nodes together. If that fails, tests halves of the group, until no smaller group fails.
  - A run fails if it crashes, hangs or computes wrong values. A run of two nodes also fails if it is slower than
    O(limit). If a run does not start, the module draws no conclusion about its nodes.
  - While the task runs, Ansible shows how many pairs have been tested. If you interrupt Ansible, the module notices
    this within three minutes and then starts no further runs.
  - Skips nodes with jobs, and nodes on which Slurm does not start jobs. Does not cancel jobs or drain nodes.
  - Run it where C(srun) works, normally on the controller or a login node.
author:
  - hpcai.azure contributors (@hpcai)
options:
  nodes:
    description: Slurm's names of the nodes. List nodes that are neighbours in the network next to each other. Host
      lists such as V(compute-[0-3]) are expanded.
    type: list
    elements: str
    required: true
  gpus:
    description: Number of GPUs per node. Defaults to that of O(vm_size).
    type: int
  vm_size:
    description: The VM size, for the defaults of O(gpus) and O(limit).
    type: str
  limit:
    description:
      - The bus bandwidth in GB/s that two nodes must reach. Defaults to the known value for O(vm_size) with messages of
        O(size).
      - Without a limit, slow runs are not detected.
    type: float
  size:
    description: The message size.
    type: str
    default: 8G
  program:
    description: Path of C(all_reduce_perf), built with MPI, on the nodes.
    type: path
    default: /opt/nccl-tests/build/all_reduce_perf
  timeout:
    description: Timeout in seconds for one run. Before the run, C(srun) waits up to a minute for the nodes.
    type: int
    default: 300
  mpi:
    description: How Slurm starts the ranks, as for C(srun --mpi).
    type: str
    default: pmix
  srun_options:
    description:
      - Additional options for C(srun), for example a partition or a reservation. They override the module's own
        options.
    type: list
    elements: str
    default: []
  environment:
    description: Additional environment variables of the program.
    type: dict
    default: {}
  known_good:
    description: Nodes that are known to be good. The module also uses them as partners of the nodes to test. Good nodes
      with jobs are skipped too.
    type: list
    elements: str
    default: []
  progress:
    description:
      - Folder to which the module writes its progress. The action plugin of the same name sets this option and reads
        the folder. Do not set it in a task.
    type: path
    version_added: "0.2.0"
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Reports which nodes would be skipped, and runs nothing.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Never reports a change.
  platform:
    description: Works with Slurm 22.05 and later.
"""

EXAMPLES = r"""
- name: Find the bad node among four nodes
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
  description: Nodes that fail with every node they were tested with.
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
  description: Pairs of good nodes that fail only with each other.
  returned: success
  type: list
  elements: list
  sample: []
groups_failing:
  description: Groups of good nodes that fail together although no tested smaller group of them failed.
  returned: success
  type: list
  elements: list
  sample: []
unclear:
  description: Nodes that were identified neither as good nor as bad.
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
  description: The bus bandwidth in GB/s that two nodes had to reach, or null if there was no limit.
  returned: success
  type: float
  sample: 175.0
rounds:
  description: Number of rounds. The runs of a round are started together, up to 32 at a time.
  returned: success
  type: int
  sample: 2
trials:
  description:
    - All runs. C(nodes) lists the nodes of the run. C(verdict) is V(pass), V(fail), or V(unknown) if the run shows
      nothing about its nodes, for example because it did not start.
    - C(value) is the bus bandwidth in GB/s, or null if none was measured. C(why) is the reason for V(fail) or
      V(unknown), and is otherwise empty.
  returned: success
  type: list
  elements: dict
  sample:
    - nodes: [compute-0, compute-1]
      verdict: pass
      value: 187.3
      why: ""
lines:
  description: The runs of RV(trials) as text, one line per run.
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
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.progress import Abandoned, reporting
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
    """Return the options of the runs.

    :raises ValueError: the number of GPUs per node is unknown, or a value is invalid.
    """
    size_in_bytes(params["size"])
    size = find_size(params["vm_size"]) if params["vm_size"] else None
    gpus = params["gpus"] if params["gpus"] is not None else (size.gpu_count if size else None)
    if params["limit"] is not None and not 0 < params["limit"] < math.inf:
        raise ValueError(f"limit is {params['limit']!r}: give GB/s above 0, or omit it")
    if gpus is None or gpus < 1:
        raise ValueError("the number of GPUs per node is unknown: set gpus, or a vm_size that has GPUs")
    known = size.thresholds.get(THRESHOLD) if size else None
    if known and params["size"] not in known.at.replace(",", " ").split():
        # The known limit was measured with messages of another size.
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
    """Skip the nodes that cannot be measured, and measure the others."""
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
        raise ValueError(f"fewer than two nodes can be measured. {reasons or 'Give at least two nodes'}")
    if module.check_mode:
        return {**NOTHING, **common, "rounds": 0, "words": f"{len(free)} nodes would be measured"}
    with reporting(module.params["progress"]) as report:
        found = pair_search.search(free, wanted, run, free_good, report)
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
            "progress": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        answer = measure(module)
    except (Abandoned, CommandFailed, HostlistError, UnknownVmSize, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
