#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: metadata_access
short_description: Restrict Azure's metadata service to root
version_added: "0.1.0"
description:
  - Azure's metadata service gives tokens of the machine's managed identity to every process that asks. This module
    allows only root and listed users to connect to TCP port 80 of 169.254.169.254, and to TCP ports 80 and 32526 of
    168.63.129.16. Everything else stays open, such as DNS at 168.63.129.16.
  - The rules are the nftables table C(inet hpcai_metadata), in the file C(/etc/hpcai/metadata.nft).
    C(hpcai-metadata.service) loads the file at boot, and C(slurmd) does not start without this service. A drop-in of
    C(nftables.service) loads the site's own rules and this table in one transaction, so that the metadata service is
    not open during a reload or restart.
  - If somebody removed or changed the rules, the module loads them again.
  - nftables matches the user who opened the socket, and tasks of C(srun --mpi=pmix) inherit a socket that root opened.
    With nftables alone, these tasks could connect. Therefore C(hpcai-metadata.service) also runs C(hpcnode metadata
    attach). This command attaches a kernel filter that checks the user who connects.
  - The kernel filter needs Linux 5.1 or later, cgroup v2, and C(hpcnode), which the module M(hpcai.azure.node_tools)
    installs. If one of these is missing, as in containers, only the rules protect the metadata service.
  - If Azure's guest proxy agent is installed, connections to the agent's port are restricted in the same way, because
    the agent forwards requests as root.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: V(absent) removes the rules, the filter, the service and the drop-in, and warns about the consequences.
    type: str
    choices: [present, absent]
    default: present
  users:
    description:
      - Names or UIDs of additional users who may connect. A name must be in the machine's own C(/etc/passwd),
        otherwise the module fails. List users of a directory service (LDAP) by UID.
    type: list
    elements: str
    default: []
  site_rules:
    description: The file with the site's own rules, which C(nftables.service) loads.
    type: path
    default: /etc/nftables.conf
  reload_flushes:
    description:
      - Whether a reload of C(nftables.service) removes all rules before it loads O(site_rules). Set the option to what
        the distribution's own unit does, because the module's drop-in replaces the unit's commands. V(false) is right
        for Debian and Ubuntu, V(true) for Enterprise Linux.
    type: bool
    default: false
  events:
    description:
      - Whether to run C(hpcai-events.service), and to restart it after C(hpcnode) was updated. This service makes the
        machine's scheduled events available to its users, who cannot query the metadata service. The module
        M(hpcai.azure.node_tools) installs the service. V(false) does not change the service.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  platform:
    description:
      - Needs nftables 1.0 or later and systemd. In an image that is not booted, the service is only enabled, and not
        started.
seealso:
  - module: hpcai.azure.node_tools
  - name: Metadata Security Protocol
    description: Azure's own way to restrict the metadata service.
    link: https://learn.microsoft.com/en-us/azure/virtual-machines/metadata-security-protocol/overview
"""

EXAMPLES = r"""
- name: Also allow a monitoring agent
  hpcai.azure.metadata_access:
    users: [telegraf]

- name: Open the metadata service to all users again
  hpcai.azure.metadata_access:
    state: absent
"""

RETURN = r"""
files:
  description: Files that the module wrote or removed. In check mode, the files that it would write or remove.
  returned: success
  type: list
  elements: str
  sample:
    - /etc/hpcai/metadata.nft
    - /etc/hpcai/metadata.json
    - /etc/systemd/system/hpcai-metadata.service
    - /etc/systemd/system/nftables.service.d/hpcai-metadata.conf
commands:
  description: Commands of C(systemctl) that the module ran. In check mode, the commands that it would run.
  returned: success
  type: list
  elements: str
  sample: [daemon-reload, enable, start]
reasons:
  description: Why the rules were loaded again although no file changed.
  returned: success
  type: list
  elements: str
  sample: [the kernel has no table inet hpcai_metadata]
security_protocol:
  description:
    - State of the Metadata Security Protocol as Azure's guest proxy agent reports it. Empty if the agent is not
      installed.
  returned: success
  type: str
  sample: Wireserver Enforce - IMDS Enforce
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.proxy_agent import read_proxy_agent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import diff_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.options import (
    MetadataOptions,
    MetadataProblem,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import UserProblem


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "users": {"type": "list", "elements": "str", "default": []},
            "site_rules": {"type": "path", "default": "/etc/nftables.conf"},
            "reload_flushes": {"type": "bool", "default": False},
            "events": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params
    options = MetadataOptions(
        guard=asked["state"] == "present",
        users=tuple(asked["users"]),
        site_rules=asked["site_rules"],
        reload_flushes=asked["reload_flushes"],
        events=asked["events"],
    )
    root = Root("/")
    try:
        made = plan.plan(root, options, run, may_come=module.check_mode)
        if not module.check_mode:
            plan.apply(made, run)
    except (MetadataProblem, UserProblem, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    agent = read_proxy_agent(root)
    if not options.guard and not (agent and agent.enforces):
        module.warn(f"{plan.OPEN}.")
    module.exit_json(
        changed=made.changed,
        files=[change.path for change in made.files],
        commands=[*made.verbs, *made.events],
        reasons=list(made.reasons),
        security_protocol=(agent.state or "no state known") if agent else "",
        diff=diff_of(made.files),
    )


if __name__ == "__main__":
    main()
