#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nccl_environment
short_description: Check NCCL's version, find its RDMA plugin, and give jobs good defaults of MPI and UCX
version_added: "0.1.0"
description:
  - Finds the copies of NCCL on the node and compares the version that programs get with O(min_version).
  - Finds the RDMA SHARP plugin (C(libnccl-net.so)) where the VM size has InfiniBand, and puts its folder and that of
    SHARP's libraries at the end of C(LD_LIBRARY_PATH) of login shells.
  - Writes the settings of MPI, UCX and CUDA that the VM size needs, as defaults. They give way to whatever a user or a
    job has set.
  - The defaults go to C(/etc/profile.d/hpcai-nccl.sh), which login shells read. Those of MPI and UCX also go to the
    system files of each Open MPI and UCX on the node, as a block of lines at the top. Jobs that begin without a login
    shell get them by these. The environment, a user's own files, and later lines of the same file win over them.
  - NCCL's own variables are the business of M(hpcai.azure.nccl_topology).
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) writes the files.
      - V(absent) removes all that V(present) has written. It needs no VM size, and looks at no NCCL.
      - With O(persistent) V(absent) is kept for the boot too. Without, a boot writes what the VM size needs by default.
    type: str
    choices: [present, absent]
    default: present
  min_version:
    description:
      - The oldest NCCL that is good. The default is what Microsoft advises for ND A100 v4 at scale.
      - Versions are compared as numbers, so 2.10 is newer than 2.9.9.
    type: str
    default: 2.9.9
  when_old:
    description:
      - What happens if NCCL is older. V(warn) goes on, V(fail) fails before anything is written.
      - Where there is no NCCL, or its version cannot be told, RV(nccl.verdict) is V(unknown), and the module warns.
    type: str
    choices: [warn, fail]
    default: warn
  sharp_plugin:
    description: Whether the RDMA SHARP plugin goes on the library path where there is one.
    type: bool
    default: true
  library_paths:
    description:
      - Folders in which to look for NCCL and for the plugin before the usual ones. Patterns such as C(/opt/nccl-*/lib)
        are taken too.
    type: list
    elements: str
    default: []
  mpi_launch_only:
    description:
      - Set V(true) where MPI does nothing but start the processes of NCCL jobs. Then UCX is limited to what the sources
        of the size use for that, such as C(UCX_TLS=tcp) over C(eth0) on ND A100 v4.
      - Such settings would make jobs slow that send data by MPI.
    type: bool
    default: false
  mpi_files:
    description:
      - Whether to write to the system files of Open MPI and UCX (C(openmpi-mca-params.conf), C(ucx.conf)).
      - V(false) takes the blocks out of them.
    type: bool
    default: true
  settings:
    description:
      - Variables of yours, over those of the VM size. V(null) as a value leaves a variable out, a boolean becomes 1
        or 0.
      - What begins with C(OMPI_MCA_) or C(UCX_) goes to the system files as well.
    type: dict
    default: {}
  persistent:
    description:
      - Keep the options in C(/etc/hpcai/nccl_environment.json), so that each boot does the same.
      - V(false) removes that file.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.nccl
  - hpcai.azure.node
notes:
  - NCCL in containers and in Python environments is another one. It is not looked at here.
  - C(csh) and C(tcsh) do not read the drop-in. The system files of MPI and UCX work with any shell.
  - The version is read off the name of the file (C(libnccl.so.2.18.5)). If that has none, a process of its own loads
    the library and asks it, for ten seconds at most.
seealso:
  - module: hpcai.azure.nccl_topology
"""

EXAMPLES = r"""
- name: Give jobs with NCCL good defaults
  hpcai.azure.nccl_environment:

- name: Refuse nodes with an old NCCL, and change some defaults
  hpcai.azure.nccl_environment:
    min_version: 2.18.5
    when_old: fail
    settings:
      UCX_LOG_LEVEL: error
      CUDA_DEVICE_ORDER:  # left out

- name: Keep the options in an image, for the boot
  hpcai.azure.nccl_environment:
    apply: false

- name: Take everything back
  hpcai.azure.nccl_environment:
    state: absent
"""

RETURN = r"""
vm_size:
  description: Canonical name of the VM size; V(null) where it was not asked for.
  returned: success
  type: str
  sample: Standard_ND96asr_v4
vm_size_from:
  description: Who said so, that is V(given), V(node.json), V(imds) or V(remembered).
  returned: success
  type: str
  sample: imds
nccl:
  description: What was found of NCCL; V(null) where it was not looked for.
  returned: success, and failure of O(when_old=fail)
  type: dict
  contains:
    verdict:
      description: V(pass), V(unknown), or O(when_old) where it is too old.
      type: str
      sample: pass
    version:
      description: Version of the copy that decides, the one of the loader's cache; V(null) where it cannot be told.
      type: str
      sample: 2.18.5
    min_version:
      description: The one that was asked for.
      type: str
      sample: 2.9.9
    summary:
      description: In words.
      type: str
      sample: /usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5 is NCCL 2.18.5.
    copies:
      description: All copies on the node, each with its version, whether it is the loader's, and whether it is old.
      type: list
      elements: dict
      sample:
        - path: /usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5
          version: 2.18.5
          default: true
          old: false
environment:
  description: The variables that are written.
  returned: success
  type: dict
  sample:
    CUDA_DEVICE_ORDER: PCI_BUS_ID
    OMPI_MCA_coll_hcoll_enable: "0"
    UCX_IB_PCI_RELAXED_ORDERING: "on"
library_paths:
  description: The folders that are put on the library path.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/nccl-rdma-sharp-plugins/lib]
sharp_plugin:
  description: What was found of the plugin; V(null) where it was not looked for.
  returned: success
  type: dict
  contains:
    found:
      description: Folders that hold one, best first.
      type: list
      elements: str
      sample: [/usr/local/nccl-rdma-sharp-plugins/lib]
    reason:
      description: Why none is put on the path; empty where one is.
      type: str
      sample: ""
    sharp:
      description: Whether this size has SHARP. V(false) for C(Standard_ND96asr_v4), V(null) where no source says.
      type: bool
      sample: false
files:
  description: The files that were written or removed.
  returned: success
  type: list
  elements: str
  sample: [/etc/profile.d/hpcai-nccl.sh, /etc/openmpi/openmpi-mca-params.conf]
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment import ensure, options


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec=options.ARGUMENTS,
        supports_check_mode=True,
    )
    try:
        done = ensure.ensure(Root(), run, options.options_of(module.params), check_mode=module.check_mode)
    except ensure.TooOld as error:
        module.fail_json(msg=str(error), nccl=error.judgement.as_dict())
    except (ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in done.pop("warnings"):
        module.warn(warning)
    module.exit_json(**done)


if __name__ == "__main__":
    main()
