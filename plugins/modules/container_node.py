#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: container_node
short_description: Prepare a node for jobs in containers
version_added: "0.1.0"
description:
  - Creates the container directories on the scratch (the file system on the node's local NVMe disks), configures
    enroot, and builds the pyxis plugin for the installed Slurm, in this order. Before the module changes anything, it
    checks all options and the requirements of the pyxis build.
  - For enroot, the module writes a drop-in for C(enroot.conf) and changes none of enroot's own files. It enables hooks
    of enroot's package. It also creates C(/run/enroot), the parent of the users' runtime folders, now and at each boot.
  - If the machine has NVIDIA GPUs and C(nvidia-container-cli), the module configures enroot's GPU hook. If it has
    InfiniBand adapters, the module configures enroot's InfiniBand hook. The hooks make these devices available in
    containers. A hook without its devices is not configured, because a container fails if one of its hooks fails. Each
    boot checks the devices again (C(hpcnode boot run containers)).
  - enroot's credentials file contains no passwords. It contains commands that fetch a token when a user pulls an image.
    The commands run as this user.
  - The options of O(enroot) are saved in C(/etc/hpcai/containers.json) for the next boot.
  - pyxis is built for exactly the installed Slurm, because Slurm only loads plugins of its own version. The plugin is
    rebuilt if the version of Slurm or pyxis, the release of Slurm's package, or the digest of the source archive has
    changed. It is also rebuilt if the plugin file was modified. C(/var/lib/hpcai/pyxis.json) records these versions and
    digests.
  - The plugin is in a folder named after the versions of Slurm and pyxis, such as
    C(/usr/lib/hpcai/pyxis/22.05.8-0.24.0/). C(plugstack.conf) contains the path of the link
    C(/usr/lib/hpcai/pyxis/spank_pyxis.so), which points to the current plugin. Running jobs keep the plugin that they
    have loaded.
  - pyxis is unpacked and compiled as the user C(nobody), in a folder below C(/var/tmp) that is removed afterwards.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(absent) removes everything that V(present) writes, including the built plugins. The folders on the scratch
        stay, with the users' images and containers. The kernel keeps its settings until the next boot.
    type: str
    choices: [present, absent]
    default: present
  enroot:
    description: Configuration of enroot. Required for O(state=present).
    type: dict
    suboptions:
      settings:
        description:
          - Settings of C(enroot.conf) by their full names. A key that enroot 4.1 does not know is refused, because
            enroot would silently ignore it. With null, enroot's default applies. True and false become C(yes) and
            C(no).
          - The paths for the runtime, data, the cache and temporary files must be absolute, and must not depend on
            variables such as C(HOME). Such variables are not set when pyxis removes a job's containers. If a path
            depended on one, enroot would look in the wrong folder, and Slurm would drain the node.
        type: dict
        default: {}
      hooks:
        description: Hooks of C(/usr/share/enroot/hooks.d) to enable with links in C(/etc/enroot/hooks.d).
        type: list
        elements: str
        default: []
      nvidia:
        description:
          - Variables for enroot's hook for NVIDIA GPUs. They are written only if the machine has GPUs and
            C(nvidia-container-cli).
        type: dict
        default: {}
      mellanox:
        description:
          - Variables for enroot's hook for InfiniBand adapters. They are written only if the machine has such adapters.
        type: dict
        default: {}
      local_folders:
        description:
          - Folders on the operating system's disk in which users create their own folders. The module gives these
            folders the mode 1777. If O(enroot.root_makes_folders=true), the folders in which root creates the users'
            folders get the mode 0755 instead.
          - Set this option only for machines whose container folders are not on a scratch, such as login nodes. For the
            scratch of compute nodes, use O(folders).
        type: list
        elements: path
        default: []
      sysctl:
        description:
          - Kernel settings that allow users to create user namespaces, as a mapping of names to values. A setting that
            the kernel does not have is skipped.
        type: dict
        default: {}
      apparmor:
        description:
          - What to do with the AppArmor profile of enroot's Debian package. V(profile) loads the profile. V(off)
            unloads and disables it. Use V(off) with AppArmor before 4.0, which cannot read the profile. V(leave) does
            neither.
        type: str
        choices: [leave, profile, 'off']
        default: leave
      acr_registries:
        description: Azure container registries, such as V(training.azurecr.io), to which the machine's managed identity
          logs in.
        type: list
        elements: str
        default: []
      acr_groups:
        description:
          - A mapping of a registry's name to a list of groups. Only members of these groups may pull images from the
            registry. Each of these registries must also be in O(enroot.acr_registries). All users may pull from a
            registry of O(enroot.acr_registries) that has no entry here.
        type: dict
        default: {}
      acr_client_id:
        description: Client id of the managed identity, for machines that have several.
        type: str
        default: ''
      ngc_key_file:
        description: File on the nodes with a key for NVIDIA's registry C(nvcr.io). Users who pull images must be able
          to read it.
        type: path
        default: ''
      cache_path:
        description:
          - Folder with a subfolder for each user, in which C(/usr/libexec/hpcai/pyxis-importer) caches this user's
            images.
        type: path
        default: ''
      cache_limit_gib:
        description: Maximum size of the cached images of one user, in GiB.
        type: float
        default: 200
      pyxis_runtime_path:
        description:
          - pyxis' setting C(runtime_path), a folder. At each boot, the node searches this folder for images of jobs
            that no longer run, and removes them.
        type: path
        default: ''
      root_makes_folders:
        description:
          - Whether root creates the users' folders, with C(hpcnode containers folders) in a job's prolog. Users then
            cannot write to the parent folders, so no user can create another user's folder.
          - This applies to the folders in O(enroot.cache_path), and to C(ENROOT_RUNTIME_PATH), C(ENROOT_CACHE_PATH) and
            C(ENROOT_DATA_PATH) if their values end in C(/user-$(id -u)).
        type: bool
        default: false
      apply:
        description:
          - V(false) only writes files. Use V(false) when you bake an image, because the kernel and C(/run) then belong
            to the machine that bakes the image.
        type: bool
        default: true
  pyxis:
    description: The pyxis plugin to build. If empty, an existing plugin stays as it is.
    type: dict
    default: {}
    suboptions:
      source:
        description:
          - The source archive on the node, such as GitHub's C(v0.24.0.tar.gz). Keep this file, because the plugin must
            be rebuilt from it after an upgrade of Slurm.
        type: path
      sha256:
        description:
          - SHA-256 digest of the archive. If it is not given, the archive is not verified. Its digest is recorded in
            both cases.
        type: str
      version:
        description: Version of pyxis. Required together with O(pyxis.source) to build the plugin.
        type: str
      prefix:
        description: Slurm's installation prefix, with C(bin/scontrol) and the headers C(include/slurm/spank.h).
          Defaults to V(/usr).
        type: path
  folders:
    description:
      - Directories on the scratch, as in M(hpcai.azure.node_directories). They are saved in
        C(/etc/hpcai/directories.json), as a list with the name C(containers), so each boot creates them again.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path relative to the scratch, or an absolute path below it.
        type: str
        required: true
      mode:
        description: Permissions, as octal digits in quotes.
        type: str
        default: '0755'
  make_folders:
    description: V(false) only saves O(folders) for the next boot. Use V(false) in an image, which has no scratch.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  platform:
    description: Needs Python 3.9 or later. Building pyxis needs make, a C compiler and Slurm's headers.
seealso:
  - module: hpcai.azure.node_directories
"""

EXAMPLES = r"""
- name: Prepare the node for containers
  hpcai.azure.container_node:
    enroot:
      settings:
        ENROOT_DATA_PATH: /scratch/enroot/data/user-$(id -u)
      pyxis_runtime_path: /scratch/pyxis
    pyxis:
      source: /usr/share/hpcai/pyxis/pyxis-0.24.0.tar.gz
      version: 0.24.0
    folders:
      - path: /scratch/pyxis
      - path: /scratch/enroot/data
        mode: '1777'

- name: Remove the settings and the plugin
  hpcai.azure.container_node:
    state: absent
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - make /scratch/enroot/data root:root 1777
    - write /etc/enroot/enroot.conf.d/50-hpcai.conf
    - "build /usr/lib/hpcai/pyxis/spank_pyxis.so: no plugin was built yet"
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.options import ARGUMENTS
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.pyxis import BuildFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

ENROOT: dict[str, dict[str, Any]] = {**ARGUMENTS, "apply": {"type": "bool", "default": True}}
PYXIS: dict[str, dict[str, Any]] = {
    "source": {"type": "path"},
    "sha256": {"type": "str"},
    "version": {"type": "str"},
    "prefix": {"type": "path"},
}
FOLDER: dict[str, dict[str, Any]] = {
    "path": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0755"},
}


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "enroot": {"type": "dict", "options": ENROOT},
            "pyxis": {"type": "dict", "options": PYXIS, "default": {}},
            "folders": {"type": "list", "elements": "dict", "options": FOLDER, "default": []},
            "make_folders": {"type": "bool", "default": True},
        },
        required_if=[("state", "present", ["enroot"])],
        supports_check_mode=True,
    )
    asked, root = module.params, Root("/")
    try:
        if asked["state"] == "absent":
            done = ensure.remove_all(root, module.check_mode)
        else:
            options = ensure.parse(asked["enroot"], asked["pyxis"], asked["folders"], asked["make_folders"])
            done = ensure.ensure_all(options, root, run, module.check_mode)
    except (BuildFailed, CommandFailed, ConfigError, UnknownVmSize, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in done.warnings:
        module.warn(warning)
    module.exit_json(changed=bool(done.actions), actions=list(done.actions), diff=list(done.diff))


if __name__ == "__main__":
    main()
