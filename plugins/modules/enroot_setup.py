#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: enroot_setup
short_description: Give enroot its settings on a node
version_added: "0.1.0"
description:
  - Writes a drop-in for C(enroot.conf) and nothing else of enroot's own files, enables hooks that its package brings,
    and makes the parents of the users' folders in C(/run), now and at each boot.
  - Where the machine has GPUs and C(nvidia-container-cli), or InfiniBand adapters, it tells enroot's hooks to bring
    them into containers. Where it has none, it does not, because a hook that cannot do what it is told lets each
    container fail. Each boot looks again (C(hpcnode boot run containers)).
  - Credentials for registries are commands, not passwords. They are run by the user who fetches an image.
  - The options are kept in C(/etc/hpcai/containers.json) for the boot.
author:
  - hpcai.azure contributors (@hpcai)
options:
  settings:
    description:
      - Settings of C(enroot.conf) by their full names. A key that enroot 4.1 does not know is refused, because enroot
        would pass over it in silence. A null leaves the key to enroot. True and false become C(yes) and C(no).
      - Paths of the runtime, of data, cache and temporary files must be absolute and must not hang on C(HOME). pyxis
        ends a job's containers without it, and a path that is another one then drains the node.
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
      - More folders in which each user makes one of his own, on the operating system's disk, mode 1777. On a compute
        node they are on the scratch, and M(hpcai.azure.node_directories) makes them.
    type: list
    elements: path
    default: []
  sysctl:
    description: Kernel settings by which users may make user namespaces. One that the kernel does not have is passed
      over.
    type: dict
    default: {}
  apparmor:
    description:
      - What to do about the AppArmor profile that enroot's Debian package brings. V(profile) loads it, V(off) keeps it
        from being loaded, for AppArmor before 4.0, which cannot read it, V(leave) does neither.
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
    description: Groups of users that may fetch images from a registry, by the registry's name. A registry without an
      entry is for all users.
    type: dict
    default: {}
  acr_client_id:
    description: Client id of the identity, for machines that have several.
    type: str
    default: ''
  ngc_key_file:
    description: File on the nodes with a key of NVIDIA's registry C(nvcr.io). Users who fetch images have to be able to
      read it.
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
        C(/user-$(id -u)), and those in O(cache_path).
    type: bool
    default: false
  apply:
    description: V(false) only writes files. That is for an image, whose kernel and C(/run) are those of the machine
      that bakes.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
seealso:
  - module: hpcai.azure.pyxis_plugin
  - module: hpcai.azure.container_node
"""

EXAMPLES = r"""
- name: Keep containers on the scratch, for each user apart
  hpcai.azure.enroot_setup:
    settings:
      ENROOT_RUNTIME_PATH: /run/enroot/user-$(id -u)
      ENROOT_DATA_PATH: /scratch/enroot/data/user-$(id -u)
      ENROOT_CACHE_PATH: /scratch/enroot/cache/user-$(id -u)
      ENROOT_TEMP_PATH: /scratch/enroot/tmp
      ENROOT_MOUNT_HOME: false
    hooks: [50-slurm-pmi.sh, 50-slurm-pytorch.sh]
    nvidia:
      NVIDIA_VISIBLE_DEVICES: all
      NVIDIA_DRIVER_CAPABILITIES: all
    acr_registries: [training.azurecr.io]
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/enroot/enroot.conf.d/50-hpcai.conf
    - link /etc/enroot/hooks.d/50-slurm-pmi.sh
    - make /run/enroot, mode 1777
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.configure import as_result, configure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.options import options_of

ARGUMENTS: dict[str, dict[str, Any]] = {
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


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = dict(module.params)
    apply = given.pop("apply")
    try:
        done = configure(options_of(given), Root("/"), run, module.check_mode, apply)
    except (CommandFailed, ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**as_result(done))


if __name__ == "__main__":
    main()
