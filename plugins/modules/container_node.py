#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: container_node
short_description: Make a node ready for jobs in containers
version_added: "0.1.0"
description:
  - Makes the directories of containers on the scratch, gives enroot its settings, and builds the pyxis plugin for the
    Slurm that is installed, in this order. Nothing is changed if one of them cannot know what to do.
  - "For enroot it writes a drop-in for C(enroot.conf) and nothing else of enroot's own files, enables hooks that its
    package has, and makes the parents of the users' folders in C(/run), now and at each boot."
  - Where the machine has GPUs and C(nvidia-container-cli), or InfiniBand adapters, it tells enroot's hooks to bring
    them into containers. Where it has none, it does not, because a hook that cannot do what it is told lets each
    container fail. Each boot looks again (C(hpcnode boot run containers)).
  - Credentials for registries are commands, not passwords. They are run by the user who fetches an image.
  - The options of O(enroot) are kept in C(/etc/hpcai/containers.json) for the boot.
  - pyxis is built for exactly the Slurm that is installed, because Slurm loads a plugin of its own version only. It is
    built again when Slurm, its package, pyxis or the source changes, or somebody changed the plugin, and only then.
    C(/var/lib/hpcai/pyxis.json) records what it was made of.
  - The plugin lies in C(/usr/lib/hpcai/pyxis/SLURM-PYXIS/), and C(/usr/lib/hpcai/pyxis/spank_pyxis.so), which stands in
    C(plugstack.conf), is a link to it. Jobs that run keep the one that they have loaded.
  - pyxis is unpacked and compiled as the user C(nobody), in a folder below C(/var/tmp) that is removed.
author:
  - hpcai.azure contributors (@hpcai)
options:
  enroot:
    description: What enroot is given.
    type: dict
    required: true
    suboptions:
      settings:
        description:
          - Settings of C(enroot.conf) by their full names. A key that enroot 4.1 does not know is refused, because
            enroot would pass over it in silence. A null leaves the key to enroot. True and false become C(yes) and
            C(no).
          - Paths of the runtime, of data, cache and temporary files must be absolute and must not hang on C(HOME).
            pyxis ends a job's containers without it, and a path that is another one then drains the node.
        type: dict
        default: {}
      hooks:
        description: Hooks of C(/usr/share/enroot/hooks.d) to enable, by links in C(/etc/enroot/hooks.d).
        type: list
        elements: str
        default: []
      nvidia:
        description: Variables for enroot's hook of NVIDIA GPUs, written where the machine has GPUs and
          C(nvidia-container-cli).
        type: dict
        default: {}
      mellanox:
        description: Variables for enroot's hook of InfiniBand adapters, written where the machine has some.
        type: dict
        default: {}
      local_folders:
        description:
          - More folders in which each user makes one of his own, on the operating system's disk, mode 1777. On a
            compute node they are on the scratch, and M(hpcai.azure.node_directories) makes them.
        type: list
        elements: path
        default: []
      sysctl:
        description: Kernel settings by which users may make user namespaces. One that the kernel does not have is
          passed over.
        type: dict
        default: {}
      apparmor:
        description:
          - What to do about the AppArmor profile that enroot's Debian package brings. V(profile) loads it, V(off) keeps
            it from being loaded, for AppArmor before 4.0, which cannot read it, V(leave) does neither.
        type: str
        choices: [leave, profile, 'off']
        default: leave
      acr_registries:
        description: Azure container registries whose password is the machine's managed identity, such as
          V(training.azurecr.io).
        type: list
        elements: str
        default: []
      acr_groups:
        description: Groups of users that may fetch images from a registry, by the registry's name. A registry without
          an entry is for all users.
        type: dict
        default: {}
      acr_client_id:
        description: Client id of the identity, for machines that have several.
        type: str
        default: ''
      ngc_key_file:
        description: File on the nodes with a key of NVIDIA's registry C(nvcr.io). Users who fetch images have to be
          able to read it.
        type: path
      cache_path:
        description: Folder of users' folders in which C(/usr/libexec/hpcai/pyxis-importer) keeps images.
        type: path
      cache_limit_gib:
        description: How many GiB of images it keeps of each user.
        type: float
        default: 200
      pyxis_runtime_path:
        description: pyxis' C(runtime_path), in which the boot looks for what dead jobs left behind.
        type: path
      root_makes_folders:
        description:
          - Whether root makes the users' folders, by C(hpcnode containers folders) in a job's prolog. Then users cannot
            write to the folders above them, so that nobody can make another user's folder.
          - The folders are those of C(ENROOT_RUNTIME_PATH), C(ENROOT_CACHE_PATH) and C(ENROOT_DATA_PATH) that end in
            C(/user-$(id -u)), and those in O(enroot.cache_path).
        type: bool
        default: false
      apply:
        description: V(false) only writes files. That is for an image, whose kernel and C(/run) are those of the machine
          that bakes.
        type: bool
        default: true
  pyxis:
    description: Which pyxis is built. Empty leaves the plugin alone.
    type: dict
    default: {}
    suboptions:
      source:
        description:
          - The archive of the source on the node, such as C(v0.24.0.tar.gz) as GitHub has it. It has to stay there,
            because the next change of Slurm needs it again.
        type: path
      sha256:
        description: Its SHA-256 digest. Without it the file counts as it is; the record has its digest.
        type: str
      version:
        description: Version of pyxis. Needed, as O(pyxis.source) is, where the plugin is wanted.
        type: str
      prefix:
        description: Folder below which Slurm is, with C(bin/scontrol) and the headers C(include/slurm/spank.h); V(/usr)
          unless given.
        type: path
  folders:
    description:
      - Directories on the scratch, as in M(hpcai.azure.node_directories). They are the set C(containers) there, so each
        boot makes them again.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path below the scratch, or an absolute one that lies there.
        type: str
        required: true
      mode:
        description: Permissions, octal digits in quotes.
        type: str
        default: '0755'
  make_folders:
    description: V(false) only keeps them for the boot. That is for an image, which has no scratch.
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
- name: Make the node ready for containers
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
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
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
    # A path to a key, and no key.
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
            "enroot": {"type": "dict", "options": ENROOT, "required": True},
            "pyxis": {"type": "dict", "options": PYXIS, "default": {}},
            "folders": {"type": "list", "elements": "dict", "options": FOLDER, "default": []},
            "make_folders": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        options = ensure.parse(asked["enroot"], asked["pyxis"], asked["folders"], asked["make_folders"])
        done = ensure.ensure_all(options, Root("/"), run, module.check_mode)
    except (BuildFailed, CommandFailed, ConfigError, UnknownVmSize, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in done.warnings:
        module.warn(warning)
    module.exit_json(changed=bool(done.actions), actions=list(done.actions), diff=list(done.diff))


if __name__ == "__main__":
    main()
