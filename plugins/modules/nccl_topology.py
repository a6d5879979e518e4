#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nccl_topology
short_description: Write NCCL's topology file and configuration for a node's VM size
version_added: "0.1.0"
description:
  - Generates NCCL's topology file for the node's VM size, compares it with the machine, and writes it.
  - Writes the variables that the size needs, including the path of the topology file, as a block at the top of
    C(/etc/nccl.conf). Other lines are not changed. If another line sets the same variable, that line has no effect,
    because NCCL uses the first line.
  - Writes drop-ins for enroot, so that containers have the topology file and C(/etc/nccl.conf).
  - A VM does not see the PCI switches of its host. The topology file defines virtual switches instead, from which NCCL
    learns which GPU and which adapter are close to each other. A file with wrong NUMA nodes or CPU masks silently
    reduces bandwidth, and Azure's HPC images have shipped several such files. The module recognizes and replaces them.
  - For a VM size without a topology file, such as one with a single GPU, no file is written, and RV(topology_reason)
    gives the reason. The variables are still written.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) writes the files.
      - V(absent) removes the block, the drop-ins, and the topology file if this module wrote it. It needs no VM size.
      - With O(persistent=true), V(absent) also applies to each boot. With O(persistent=false), the next boot writes the
        defaults of the VM size again.
    type: str
    choices: [present, absent]
    default: present
  topology_path:
    description:
      - Path of the topology file.
      - An existing file is replaced if this module generated it, or if it is a known file of the HPC images. A file
        with the same content stays as it is. Any other file is refused, unless O(force=true).
      - If the replaced file is a correct file of the HPC images, the module keeps a copy next to it that ends in
        C(.saved).
    type: path
    default: /var/lib/hpcai/nccl-topo.xml
  conf_path:
    description: NCCL's configuration file of this node.
    type: path
    default: /etc/nccl.conf
  settings:
    description:
      - Your own variables, which override those of the VM size. The value V(null) omits a variable. A boolean becomes 1
        or 0.
      - Set C(NCCL_TOPO_FILE) to use your own topology file.
      - V(null) does not change lines outside the block. If one of these lines sets the omitted variable, NCCL uses that
        line, and RV(environment) shows its value.
    type: dict
    default: {}
  enroot_dir:
    description:
      - Folder of enroot's configuration, for C(mounts.d/60-hpcai-nccl.fstab) and C(environ.d/60-hpcai-nccl.env).
      - With an empty string or V(none), no drop-ins are written.
    type: str
    default: /etc/enroot
  verify:
    description:
      - What to do if the topology does not match the machine. A mismatch is a missing or additional GPU or adapter, a
        GPU or adapter on another NUMA node, or a NUMA node with other CPUs.
      - V(strict) fails before anything is written. V(warn) writes the files and warns. V(ignore) does not compare.
      - V(omit) writes everything except the topology file, and warns. It sets C(NCCL_TOPO_FILE) to an empty value, so
        that NCCL detects the topology. It removes a topology file that this module wrote before. At boot, V(strict)
        works like V(omit).
      - A device without a known NUMA node is not a mismatch. It is listed in RV(unknown).
    type: str
    choices: [strict, omit, warn, ignore]
    default: strict
  force:
    description: Replace a topology file of unknown origin, and keep a copy next to it that ends in C(.saved).
    type: bool
    default: false
  root:
    description:
      - Read the machine's files below this folder, for example from a copy of another machine's C(/sys).
      - Files are written to O(topology_path), O(conf_path) and O(enroot_dir), not below this folder. Set these three
        options to other paths than their defaults, or use check mode. Otherwise the module fails.
    type: path
    default: /
  persistent:
    description:
      - Save the options in C(/etc/hpcai/nccl.json), so that the node does the same at each boot. This is necessary
        because the HPC images rewrite C(/etc/nccl.conf) at every boot, and because a node may start with another VM
        size.
      - V(false) removes that file.
      - Defaults to V(true), or to V(false) if O(root) is not V(/). With such an O(root), V(true) is refused, except in
        check mode.
    type: bool
extends_documentation_fragment:
  - hpcai.azure.nccl
  - hpcai.azure.node
notes:
  - Variables in the environment of a job and in C(~/.nccl.conf) override C(/etc/nccl.conf).
  - Under pyxis, C(environ.d) overrides variables that a job exported, unless the job lists them in C(--container-env).
    Therefore the drop-in only sets C(NCCL_TOPO_FILE). All other variables reach containers through the mounted
    C(/etc/nccl.conf), which the job's environment overrides.
  - For most VM sizes, the module sets C(NCCL_IGNORE_CPU_AFFINITY=1), as the HPC images do. NCCL's helper threads then
    use all CPUs of the GPU's NUMA node, not only those that a rank was pinned to. Slurm's cgroup still confines them.
    V(null) in O(settings) omits this variable.
seealso:
  - module: hpcai.azure.daemon
  - module: hpcai.azure.nccl_environment
  - name: NCCL environment variables
    description: What each variable does.
    link: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

EXAMPLES = r"""
- name: Write the topology and the variables for this node
  hpcai.azure.nccl_topology:

- name: Use the VM size from the inventory, and set your own variables
  hpcai.azure.nccl_topology:
    vm_size: "{{ azure_vm_size }}"
    settings:
      NCCL_DEBUG: WARN
      NCCL_IB_QPS_PER_CONNECTION: 4
      NCCL_IGNORE_CPU_AFFINITY:  # null omits this variable

- name: Write the topology although the machine differs, and warn
  hpcai.azure.nccl_topology:
    verify: warn

- name: Show what would be written for a machine whose /sys was captured
  hpcai.azure.nccl_topology:
    vm_size: Standard_ND96asr_v4
    root: /srv/captured/node17
  check_mode: true
  register: would_be

- name: Let NCCL detect the topology again
  hpcai.azure.nccl_topology:
    state: absent
"""

RETURN = r"""
vm_size:
  description: Canonical name of the VM size, or V(null) for O(state=absent).
  returned: success
  type: str
  sample: Standard_ND96asr_v4
vm_size_from:
  description:
    - Source of the VM size. V(given) means O(vm_size), V(node.json) means C(/etc/hpcai/node.json), V(imds) means the
      metadata service, and V(remembered) means the last answer of that service.
  returned: success
  type: str
  sample: imds
family:
  description: Name that the HPC images give to topology files of this kind, or V(null) if none is generated.
  returned: success
  type: str
  sample: ndv4
topology:
  description: Text of the topology file, or V(null) if none is generated.
  returned: success
  type: str
  sample: |
    <!-- Generated by hpcai.azure.nccl_topology for Standard_ND40rs_v2; the next run replaces changes. -->
    <system version="1">
      <cpu numaid="0" affinity="00000000,000fffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
        <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
topology_reason:
  description: Why no topology file is generated. Empty if one is generated.
  returned: success
  type: str
  sample: ""
gpus:
  description: Each GPU of the topology with its NUMA node, that node's CPUs, its switch and its nearest adapters.
  returned: success
  type: list
  elements: dict
  sample:
    - gpu: 0
      busid: "0001:00:00.0"
      numa_node: 1
      cpus: 24-47
      switch: 2
      hcas:
        - name: mlx5_ib0
          busid: "0101:00:00.0"
environment:
  description: The variables that NCCL reads from O(conf_path) after this run, including lines outside the block.
  returned: success
  type: dict
  sample:
    NCCL_IB_PCI_RELAXED_ORDERING: "1"
    NCCL_IGNORE_CPU_AFFINITY: "1"
    NCCL_SOCKET_IFNAME: eth0
    NCCL_TOPO_FILE: /var/lib/hpcai/nccl-topo.xml
overridden:
  description: Lines outside the block that have no effect, because the block sets the variable to something else.
  returned: success
  type: list
  elements: str
  sample: [NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml]
replaced:
  description: What is known about the topology file that was replaced, or V(null) if none was.
  returned: success
  type: str
  sample: "ndv4, before 2023-09: NUMA nodes swapped (0 with 1, 2 with 3), affinity masks wrong"
verified:
  description: Whether the topology matches the machine, or V(null) if that was not checked or cannot be determined.
  returned: success
  type: bool
  sample: true
mismatches:
  description: Where the topology does not match the machine.
  returned: success, and failure of O(verify=strict)
  type: list
  elements: dict
  contains:
    what:
      description: The component.
      type: str
      sample: GPU 0001:00:00.0
    kind:
      description: V(missing) means a missing device or NUMA node, and V(unexpected) an additional device. V(numa_node)
        means a device on another NUMA node, V(affinity) a NUMA node with other CPUs, and V(count) another number of
        NUMA nodes.
      type: str
      sample: numa_node
    expected:
      description: Value in the topology.
      type: str
      sample: NUMA node 1
    found:
      description: Value on the machine.
      type: str
      sample: NUMA node 0
unknown:
  description: What could not be read from the machine.
  returned: success
  type: list
  elements: str
  sample: ["GPU 0001:00:00.0: the machine does not show its NUMA node"]
foreign_topologies:
  description:
    - Other topology files to which a line in O(conf_path), C(/etc/environment) or enroot's C(environ.d) points. This
      module wrote neither the file nor the line, and changes neither of them.
    - C(named_by) is the file that contains the line. C(known) says what is known about the topology file, or is null.
      C(broken) is true if the topology file is known to be wrong. C(wins) is true if the line overrides O(conf_path).
  returned: success
  type: list
  elements: dict
  sample:
    - path: /opt/microsoft/ndv4/topo.xml
      named_by: /etc/nccl.conf
      known: "ndv4, before 2025-02: affinity masks wrong"
      broken: true
      wins: false
files:
  description: The files that were written or removed.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/hpcai/nccl-topo.xml, /etc/nccl.conf]
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl import ensure, options
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.plan import Refused


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec=options.ARGUMENTS,
        supports_check_mode=True,
    )
    try:
        done = ensure.ensure(options.options_of(module.params), check_mode=module.check_mode)
    except Refused as error:
        module.fail_json(msg=str(error), mismatches=[mismatch.as_dict() for mismatch in error.mismatches])
    except (ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in done.pop("warnings"):
        module.warn(warning)
    module.exit_json(**done)


if __name__ == "__main__":
    main()
