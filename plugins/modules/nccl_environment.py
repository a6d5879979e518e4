#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nccl_environment
short_description: Check NCCL's version, find its RDMA plugin, and set defaults of MPI and UCX for jobs
version_added: "0.1.0"
description:
  - Finds the copies of NCCL on the node, and checks that the copy that programs load is not older than
    O(min_version).
  - Finds the RDMA SHARP plugin (C(libnccl-net.so)) if the VM size has InfiniBand, and appends its folder and the folder
    of SHARP's libraries to C(LD_LIBRARY_PATH) of login shells. NCCL uses this plugin for InfiniBand, also where the
    network has no SHARP.
  - Writes the settings of MPI, UCX and CUDA that the VM size needs, as defaults. Settings of a user or a job override
    them.
  - The defaults are written to C(/etc/profile.d/hpcai-nccl.sh), which login shells read.
  - The defaults of MPI and UCX are also written at the top of the system-wide settings file of each Open MPI and UCX on
    the node, for jobs that start without a login shell. The environment, a user's own files, and later lines of the
    same file override these defaults.
  - M(hpcai.azure.nccl_topology) sets NCCL's own variables.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) writes the files.
      - V(absent) removes everything that V(present) has written. It needs no VM size, and does not check NCCL.
      - With O(persistent=true), the node also does not write the defaults at later boots. With O(persistent=false), the
        next boot writes the defaults of the VM size again.
    type: str
    choices: [present, absent]
    default: present
  min_version:
    description:
      - Oldest accepted version of NCCL. The default is what Microsoft recommends for large jobs on ND A100 v4.
      - Versions are compared as numbers, so 2.10 is newer than 2.9.9.
    type: str
    default: 2.9.9
  when_old:
    description:
      - What to do if NCCL is older than O(min_version). V(warn) continues with a warning. V(fail) fails before anything
        is written.
      - If there is no NCCL, or its version cannot be read, RV(nccl.verdict) is V(unknown), and the module warns.
    type: str
    choices: [warn, fail]
    default: warn
  sharp_plugin:
    description: Whether to add the RDMA SHARP plugin to the library path, if it is installed.
    type: bool
    default: true
  library_paths:
    description:
      - Folders in which to search for NCCL and for the plugin, before the usual folders. Patterns such as
        C(/opt/nccl-*/lib) are allowed.
      - If the name of a library does not contain its version, the module loads the library to query it, unless users
        other than root can replace it. Its version is then unknown.
    type: list
    elements: str
    default: []
  mpi_launch_only:
    description:
      - Set V(true) if jobs use MPI only to start their processes, and transfer all data with NCCL. UCX then gets the
        settings that are documented for this case on the VM size, such as C(UCX_TLS=tcp) and C(UCX_NET_DEVICES=eth0) on
        ND A100 v4.
      - These settings slow down jobs that send data with MPI.
    type: bool
    default: false
  mpi_files:
    description:
      - Whether to write to the system files of Open MPI and UCX (C(openmpi-mca-params.conf), C(ucx.conf)).
      - V(false) removes the lines that this module has written to these files.
    type: bool
    default: true
  settings:
    description:
      - Your own variables, which override those of the VM size. The value V(null) omits a variable. A boolean becomes 1
        or 0.
      - Variables that start with C(OMPI_MCA_) or C(UCX_) are also written to the system files.
    type: dict
    default: {}
  persistent:
    description:
      - Save the options in C(/etc/hpcai/nccl_environment.json), so that the node applies them again at each boot.
      - V(false) removes that file. Each boot then applies the default options.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.nccl
  - hpcai.azure.node
notes:
  - Containers and Python environments have their own NCCL, which is not checked here.
  - C(csh) and C(tcsh) do not read C(/etc/profile.d/hpcai-nccl.sh). The settings files of MPI and UCX work with any
    shell.
  - The version is read from the file name (C(libnccl.so.2.18.5)). If the name has no version, a separate process loads
    the library and queries it, with a timeout of 10 seconds.
seealso:
  - module: hpcai.azure.nccl_topology
"""

EXAMPLES = r"""
- name: Set the defaults for jobs with NCCL
  hpcai.azure.nccl_environment:

- name: Refuse nodes with an old NCCL, and change some defaults
  hpcai.azure.nccl_environment:
    min_version: 2.18.5
    when_old: fail
    settings:
      UCX_LOG_LEVEL: error
      CUDA_DEVICE_ORDER:  # null omits this variable

- name: Only save the options in an image, so that nodes with this image use them at boot
  hpcai.azure.nccl_environment:
    apply: false

- name: Remove everything again
  hpcai.azure.nccl_environment:
    state: absent
"""

RETURN = r"""
vm_size:
  description: Canonical name of the VM size, or V(null) if it was not needed.
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
nccl:
  description: The NCCL that was found, or V(null) if the module did not search for it.
  returned: success, and failure because of O(when_old=fail)
  type: dict
  contains:
    verdict:
      description: V(pass), V(unknown), or the value of O(when_old) if NCCL is too old.
      type: str
      sample: pass
    version:
      description:
        - Version of the checked copy. This is the copy in the cache of the dynamic loader, or the oldest copy if the
          cache has none. V(null) if the version cannot be read.
      type: str
      sample: 2.18.5
    min_version:
      description: The value of O(min_version).
      type: str
      sample: 2.9.9
    summary:
      description: The result in one sentence.
      type: str
      sample: /usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5 is NCCL 2.18.5.
    copies:
      description:
        - All copies on the node. C(default) says whether the copy is the one in the loader's cache, and C(old) whether
          it is too old.
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
  description: The folders that are added to the library path.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/nccl-rdma-sharp-plugins/lib]
sharp_plugin:
  description: The plugin that was found, or V(null) if the module did not search for it.
  returned: success
  type: dict
  contains:
    found:
      description: Folders that contain the plugin. The module uses the first one.
      type: list
      elements: str
      sample: [/usr/local/nccl-rdma-sharp-plugins/lib]
    reason:
      description: Why no plugin is added to the path. Empty if one is added.
      type: str
      sample: ""
    sharp:
      description: Whether this VM size has SHARP. V(false) for C(Standard_ND96asr_v4), V(null) if this is not known.
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
