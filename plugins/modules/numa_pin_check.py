#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: numa_pin_check
short_description: Check the pinning of a job's processes, and recommend how to start them
version_added: "0.1.0"
description:
  - Inspects the processes of a job and all their threads. It finds on which CPUs they may run and last ran, on which
    NUMA nodes their memory is, and which GPUs and InfiniBand adapters they use.
  - Reports each problem of the pinning as a finding with a code, a severity, a description and what to do.
  - Recommends where the ranks of a node should run, and the command line that starts them there, for this machine or
    for an Azure VM size. If no processes are selected, it only recommends.
  - Reads the machine from C(/sys) and C(/proc) only, on any VM size. Needs neither C(lstopo) nor C(nvidia-smi).
  - The program of a rank, the shell that started it, and the workers that it started are judged together as one rank.
    If some processes have a rank number in their environment, processes without a rank number count as launchers and
    are not judged.
  - Ignores itself and the processes that started it, unless they are listed in O(pids).
author:
  - hpcai.azure contributors (@hpcai)
options:
  processes:
    description:
      - Regular expression. Selects processes whose name or command line contains a match.
      - If O(cgroup), O(slurm_job_id) or O(pids) is set as well, only the processes that match both options are
        selected. Set at most one of these three options.
    type: str
  pids:
    description: Processes with these ids. Each of them is judged, even if it has no rank number.
    type: list
    elements: int
    default: []
  cgroup:
    description:
      - Processes of this control group (version 1 or 2) and of those below it. The path is relative to
        C(/sys/fs/cgroup). The root group, which contains every process, is refused.
    type: str
  slurm_job_id:
    description:
      - Processes of this Slurm job on this node. They are found by the job's control groups, or, if Slurm does not use
        control groups, by C(SLURM_JOB_ID) in the environment of the processes.
    type: int
  memory:
    description:
      - Also check on which NUMA nodes the processes' memory is, for the findings C(memory_far) and C(memory_policy).
      - The kernel then walks through all pages of each process. This takes about 15 ms per GiB with pages of 4 KiB, and
        delays the memory management of the process. Therefore this is off by default.
    type: bool
    default: false
  vm_size:
    description:
      - Recommend for this Azure VM size, for example V(nd96asr_v4), instead of for this machine. Any spelling that
        Azure accepts is allowed.
    type: str
  vm_sizes:
    description: VM sizes that you describe yourself, as a mapping of names to facts, in the form of the inventory
      variable C(hpcai_vm_sizes).
    type: dict
    default: {}
  launcher:
    description:
      - What starts the ranks. Use V(openmpi) for HPC-X, too.
      - V(cpu-bind) returns only the option C(--cpu-bind) of C(srun), for scripts that have their own C(srun) line.
      - V(intelmpi), V(mvapich2), V(torchrun) and V(cpu-bind) were added in version 0.2.0.
    type: str
    choices: [srun, openmpi, intelmpi, mvapich2, torchrun, cpu-bind]
    default: srun
  ranks_per_node:
    description:
      - Ranks per node. Defaults to the number of ranks that were found, else one per GPU, else one per NUMA node.
    type: int
  threads_per_rank:
    description:
      - Threads per rank. Unless O(launcher=cpu-bind), the advice sets C(OMP_NUM_THREADS) to this number.
      - With O(masks=disjoint) each rank also gets only this many cores, instead of its full share of the cores. If the
        share has fewer cores, the rank gets the full share, whose hardware threads must be enough for the threads.
        Otherwise no advice is possible.
    type: int
  masks:
    description:
      - With V(disjoint) each rank gets its own cores, with all hardware threads of these cores.
      - With V(whole_domain) the ranks of a NUMA node share all CPUs of that node.
    type: str
    choices: [disjoint, whole_domain]
    default: disjoint
  fail_on:
    description:
      - Codes of findings, or the severities V(error), V(warning) and V(info). The task fails if there is such a
        finding.
      - If this is not empty, the task also fails if nothing could be judged, for example because no process matches, or
        because no option selects processes.
    type: list
    elements: str
    default: []
  root:
    description:
      - Read C(/proc) and C(/sys) below this folder, for example from a copy of another machine's files. The GPUs in use
        are then known only from C(CUDA_VISIBLE_DEVICES).
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Does the same in check mode, because it never changes anything.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Never reports a change.
  platform:
    description: Works on any Linux with C(/proc) and C(/sys).
notes:
  - Run it as root to see the processes of other users. The GPUs that a process uses are read with NVML, the library of
    NVIDIA's driver.
  - Ranks that share all CPUs of a NUMA node are a finding C(shared_domain) of severity V(info), because
    O(masks=whole_domain) recommends this. Any other sharing of CPUs is a finding C(overlap) of severity V(error).
  - The guide to pinning lists all findings.
seealso:
  - name: Pinning processes to CPUs
    description: The guide to this module and C(hpcnode pins).
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_pinning.rst
"""

EXAMPLES = r"""
- name: Get the recommended command line for eight ranks on an ND A100 v4
  hpcai.azure.numa_pin_check:
    vm_size: Standard_ND96asr_v4
  register: pinning

- name: Show the srun line
  ansible.builtin.debug:
    var: pinning.advice.line

- name: Fail if a rank of the running job is badly pinned
  hpcai.azure.numa_pin_check:
    slurm_job_id: 4711
    fail_on: [error]

- name: Check whether HPL's ranks share CPUs or have memory on another NUMA node
  hpcai.azure.numa_pin_check:
    processes: xhpl
    memory: true
    fail_on: [overlap, memory_far]
"""

RETURN = r"""
verdict:
  description:
    - V(bad) if there is a finding of severity V(error). V(unknown) if no process was judged, because none was selected,
      found or readable. Otherwise V(good).
  returned: always
  type: str
  sample: bad
findings:
  description:
    - Problems and remarks, the worst first. C(code) is the name of the finding in the guide to pinning. C(severity) is
      V(error), V(warning) or V(info). C(text) says what was found, and C(action) what to do.
    - C(ranks) lists labels of ranks, as in RV(ranks). C(pids), C(cpus), C(nodes) and C(gpus) are the process ids, CPUs,
      NUMA nodes and GPU numbers that the finding is about.
  returned: always
  type: list
  elements: dict
  sample:
    - code: far_from_gpu
      severity: error
      text: Rank 0 runs on NUMA node 0, far from its GPU 0 on 1.
      action: Give it CPUs of NUMA node 1, or another GPU.
      ranks: ["0"]
      pids: [48213]
      cpus: 0-11
      nodes: [0]
      gpus: [0]
ranks:
  description:
    - The ranks that were found, with their processes and devices. C(rank) is the number of the rank within the node, or
      null if no launcher set one. C(label) is this number, else the process id. C(verdict) is V(error), V(warning) or
      V(good).
    - C(cpus) and C(mask) are the CPUs on which the rank may run, and C(offline_cpus) are CPUs of the mask that are
      offline. C(last_cpus) are the CPUs on which its threads last ran. C(nodes) and C(last_nodes) are the NUMA nodes of
      C(cpus) and C(last_cpus). C(busy_threads) is the number of runnable threads. C(threads_by_cpus) is the number of
      threads for each list of CPUs on which they may run.
    - C(gpus) and C(hcas) are the GPUs and InfiniBand adapters that the rank uses, or null if unknown. C(gpus_assumed)
      is true if the GPUs are known only from the environment.
    - C(memory_nodes) are the NUMA nodes on which the rank may allocate memory, or null if unknown. C(memory_mib) is the
      memory on each NUMA node in MiB, and C(memory_policies) are the policies of this memory. Both are null unless
      O(memory=true).
  returned: always
  type: list
  elements: dict
  sample:
    - rank: 0
      label: "0"
      verdict: error
      pids: [48213]
      processes: [{name: xhpl, pid: 48213, threads: 14}]
      threads: 14
      busy_threads: 9
      threads_by_cpus: {0-11: 14}
      cpus: 0-11
      mask: fff
      offline_cpus: ""
      nodes: [0]
      last_cpus: 0-5,7,9
      last_nodes: [0]
      gpus: [0]
      gpus_assumed: false
      hcas: [mlx5_ib0]
      memory_nodes: [0, 1, 2, 3]
      memory_mib: {"0": 20480.5}
      memory_policies: [default]
others:
  description: Selected processes that are not ranks, such as launchers and shells.
  returned: always
  type: list
  elements: dict
  sample: [{name: srun, pid: 48100, threads: 6}]
machine:
  description:
    - NUMA nodes with their CPUs, GPUs and InfiniBand adapters, normally of this machine. If O(vm_size) is given and no
      processes are selected, those of this VM size. C(origin) is V(machine) or the name of the VM size.
    - C(cpus_usable) are the online CPUs that the control group allows. C(memory_only_nodes) are NUMA nodes without
      CPUs. C(busid) is a device's PCI address, and C(node) is its NUMA node.
  returned: always
  type: dict
  sample:
    origin: machine
    cpus_online: 0-95
    cpus_usable: 0-95
    nodes: [{node: 0, cpus: 0-23, gpus: [2, 3], hcas: [mlx5_ib2, mlx5_ib3]}]
    memory_only_nodes: []
    gpus: [{index: 0, busid: "0001:00:00.0", node: 1}]
    hcas: [{name: mlx5_ib0, busid: "0101:00:00.0", node: 1}]
advice:
  description:
    - Where each rank should run. C(line) is the command line that starts the ranks there, and C(arguments) is the same
      as a list. C(environment) contains the variables to set. C(node) is a NUMA node. C(notes) are remarks.
    - C(vm_size) is null if the advice is for this machine.
    - If there is no advice, this value is null instead of a dictionary, and RV(no_advice) gives the reason.
  returned: always
  type: dict
  sample:
    vm_size: Standard_ND96asr_v4
    masks: disjoint
    ranks_per_node: 8
    threads_per_rank: null
    ranks: [{rank: 0, gpus: [0], node: 1, cpus: 24-35, mask: fff000000}]
    launcher: srun
    line: srun --ntasks-per-node=8 --gpus-per-node=8 --cpu-bind=mask_cpu:fff000000,... --mpi=pmix
    arguments: [srun, --ntasks-per-node=8, --gpus-per-node=8, "--cpu-bind=mask_cpu:fff000000,...", --mpi=pmix]
    environment: {OMPI_MCA_coll_hcoll_enable: "0"}
    notes: [Each rank uses the GPU with the number of its local rank.]
no_advice:
  description: Why there is no advice. Empty if there is advice.
  returned: always
  type: str
  sample: ""
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import read_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import compute_processes
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import existing_root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning import advise, finding, launch, report, select
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import PinningOptions, check
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "processes": {"type": "str"},
            "pids": {"type": "list", "elements": "int", "default": []},
            "cgroup": {"type": "str"},
            "slurm_job_id": {"type": "int"},
            "memory": {"type": "bool", "default": False},
            "vm_size": {"type": "str"},
            "vm_sizes": {"type": "dict", "default": {}},
            "launcher": {"type": "str", "choices": list(launch.LAUNCHERS), "default": launch.SRUN},
            "ranks_per_node": {"type": "int"},
            "threads_per_rank": {"type": "int"},
            "masks": {"type": "str", "choices": list(advise.MASKS), "default": advise.DISJOINT},
            "fail_on": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        root = existing_root(asked["root"])
        chosen = select.Selection(asked["processes"], tuple(asked["pids"]), asked["cgroup"], asked["slurm_job_id"])
        finding.check_names(asked["fail_on"], bool(chosen))
        described = {**((read_config(root, "node") or {}).get("vm_sizes") or {}), **asked["vm_sizes"]}
        size = find_size(asked["vm_size"], described) if asked["vm_size"] else None
        ranks, threads = asked["ranks_per_node"], asked["threads_per_rank"]
        options = PinningOptions(chosen, size, asked["launcher"], ranks, threads, asked["masks"], asked["memory"])
        made = check(root, options, compute_processes)
    except ValueError as error:
        module.fail_json(msg=str(error))
    data = report.as_data(made)
    problem = report.refusal(made, asked["fail_on"])
    if problem:
        module.fail_json(msg=problem, changed=False, **data)
    module.exit_json(changed=False, **data)


if __name__ == "__main__":
    main()
