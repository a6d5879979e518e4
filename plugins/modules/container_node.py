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
  - Creates the container directories on the scratch, configures enroot, and builds the pyxis plugin for the installed
    Slurm, in this order. It checks all options and the requirements of the pyxis build before it changes anything.
  - For enroot it writes a drop-in for C(enroot.conf) and changes none of enroot's own files. It enables hooks of
    enroot's package, and creates the parent folders of the users' folders in C(/run), now and at each boot.
  - If the machine has GPUs and C(nvidia-container-cli), or InfiniBand adapters, it configures enroot's hooks to make
    them available in containers. Otherwise it does not, because a container fails if one of its hooks fails. Each boot
    checks again (C(hpcnode boot run containers)).
  - Credentials for registries are commands, not passwords. They run as the user who pulls an image.
  - The options of O(enroot) are saved in C(/etc/hpcai/containers.json) for the next boot.
  - pyxis is built for exactly the installed Slurm, because Slurm only loads plugins of its own version. It is rebuilt
    only when Slurm, its package, pyxis or the source changes, or when somebody changed the plugin.
    C(/var/lib/hpcai/pyxis.json) records what it was built from.
  - The plugin is in C(/usr/lib/hpcai/pyxis/SLURM-PYXIS/). C(plugstack.conf) names the link
    C(/usr/lib/hpcai/pyxis/spank_pyxis.so), which points to it. Running jobs keep the plugin that they have loaded.
  - pyxis is unpacked and compiled as the user C(nobody), in a folder below C(/var/tmp) that is removed afterwards.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(absent) removes everything that V(present) writes, including the built plugins. The folders on the scratch,
        with the users' images and containers, stay, and the kernel keeps its settings until the next boot.
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
          - Paths of the runtime, of data, cache and temporary files must be absolute and must not depend on C(HOME).
            pyxis removes a job's containers without C(HOME), and if the path then differs, Slurm drains the node.
        type: dict
        default: {}
      hooks:
        description: Hooks of C(/usr/share/enroot/hooks.d) to enable with links in C(/etc/enroot/hooks.d).
        type: list
        elements: str
        default: []
      nvidia:
        description: Variables for enroot's hook for NVIDIA GPUs, written only if the machine has GPUs and
          C(nvidia-container-cli).
        type: dict
        default: {}
      mellanox:
        description: Variables for enroot's hook for InfiniBand adapters, written only if the machine has some.
        type: dict
        default: {}
      local_folders:
        description:
          - Additional folders in which users create their own folders, on the operating system's disk, with mode 1777.
            On a compute node they are on the scratch, and M(hpcai.azure.node_directories) creates them.
        type: list
        elements: path
        default: []
      sysctl:
        description: Kernel settings that allow users to create user namespaces. A setting that the kernel does not have
          is skipped.
        type: dict
        default: {}
      apparmor:
        description:
          - What to do with the AppArmor profile of enroot's Debian package. V(profile) loads it. V(off) keeps it from
            being loaded, for AppArmor before 4.0, which cannot read it. V(leave) does neither.
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
        description: Groups of users that may pull images from a registry, by the registry's name. A registry without an
          entry is open to all users.
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
      cache_path:
        description: Parent of the users' folders in which C(/usr/libexec/hpcai/pyxis-importer) caches images.
        type: path
      cache_limit_gib:
        description: Maximum size of the cached images of one user, in GiB.
        type: float
        default: 200
      pyxis_runtime_path:
        description: pyxis' C(runtime_path), in which the boot phase searches for leftovers of dead jobs.
        type: path
      root_makes_folders:
        description:
          - Whether root creates the users' folders, with C(hpcnode containers folders) in a job's prolog. Users then
            cannot write to the parent folders, so no user can create another user's folder.
          - This covers C(ENROOT_RUNTIME_PATH), C(ENROOT_CACHE_PATH) and C(ENROOT_DATA_PATH), if they end in
            C(/user-$(id -u)), and the folders in O(enroot.cache_path).
        type: bool
        default: false
      apply:
        description: V(false) only writes files. Use it in an image, where the kernel and C(/run) belong to the machine
          that bakes the image.
        type: bool
        default: true
  pyxis:
    description: The pyxis to build. If empty, the plugin stays as it is.
    type: dict
    default: {}
    suboptions:
      source:
        description:
          - The source archive on the node, such as GitHub's C(v0.24.0.tar.gz). Keep it there, because the next change
            of Slurm needs it again.
        type: path
      sha256:
        description: SHA-256 digest of the archive. If not given, the archive is not verified, only its digest is
          recorded.
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
      - Directories on the scratch, as in M(hpcai.azure.node_directories). They are saved there as the set
        C(containers), so each boot creates them again.
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
    description: V(false) only saves O(folders) for the next boot. Use it in an image, which has no scratch.
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
  description: Actions that were done, or in check mode would be, in order.
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
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.pyxis import BuildFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

ENROOT: dict[str, dict[str, Any]] = {
    "settings": {"type": "dict", "default": {}},
    "hooks": {"type": "list", "elements": "str", "default": []},
    "nvidia": {"type": "dict", "default": {}},
    "mellanox": {"type": "dict", "default": {}},
    "local_folders": {"type": "list", "elements": "path", "default": []},
    "sysctl": {"type": "dict", "default": {}},
    "apparmor": {"type": "str", "choices": ["leave", "profile", "off"], "default": "leave"},
    "acr_registries": {"type": "list", "elements": "str", "default": []},
    "acr_groups": {"type": "dict", "default": {}},
    "acr_client_id": {"type": "str", "default": ""},
    # This is the path of a key file, not a key.
    "ngc_key_file": {"type": "path", "no_log": False},
    "cache_path": {"type": "path"},
    "cache_limit_gib": {"type": "float", "default": 200},
    "pyxis_runtime_path": {"type": "path"},
    "root_makes_folders": {"type": "bool", "default": False},
    "apply": {"type": "bool", "default": True},
}
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
