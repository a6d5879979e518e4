#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: compute_access
short_description: Let only those log in to a compute node who have a job there, and admins
version_added: "0.1.0"
description:
  - Puts C(pam_slurm_adopt) into the account phase of sshd's PAM stack. Who has no job on the node is refused with a
    message. The session of who has one becomes part of the job, with its limits, and ends with it.
  - Admins are let in before that, by user or by group (C(pam_listfile)). All other checks of the stack remain.
  - In what sshd's stack includes, C(pam_systemd) is left out, by a copy of the file (C(/etc/pam.d/hpcai-*)). It would
    take the session out of the job again. Consoles and services keep it.
  - Only root may use cron and at there, because what they start is in no job. C(/etc/cron.allow) and C(/etc/at.allow)
    are made empty; one that exists stays as it is.
  - Refuses before it writes anything, if whoever runs it or all admins would be locked out, or if it could not work.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: V(absent) puts sshd's stack back as it was, and removes the files.
    type: str
    choices: [present, absent]
    default: present
  admins:
    description: Users who are always let in. Root always is.
    type: list
    elements: str
    default: []
  admin_groups:
    description: Groups whose members are always let in. One that the machine lacks does no harm.
    type: list
    elements: str
    default: [sudo, wheel]
  when:
    description:
      - V(now) does it now, and lets each boot see that it stays so.
      - V(boot) leaves this machine's logins as they are, and lets each boot see to it. For an image, which has neither
        a name nor its users yet.
    type: str
    choices: [now, boot]
    default: now
  node_name:
    description:
      - The node's name in Slurm, which is often not the host's name. By it the node's jobs are found.
      - Without it the host's name counts, which Slurm must know then.
    type: str
  options:
    description:
      - Options of C(pam_slurm_adopt). By default whoever cannot be made part of a job is refused. Slurm's own defaults
        let him in.
    type: list
    elements: str
    default: [action_no_jobs=deny, action_unknown=newest, action_adopt_failure=deny, action_generic_failure=deny]
  nss_slurm:
    description:
      - Whether the names of jobs' users come with their jobs (C(nss_slurm)), for accounts of a directory. Its package
        and C(LaunchParameters=enable_nss_slurm) are needed.
    type: bool
    default: false
  spool_dir:
    description: Slurmd's folder (C(SlurmdSpoolDir)), for C(nss_slurm).
    type: path
    default: /var/lib/slurm/slurmd
  hide_processes:
    description:
      - Whether users see their own processes alone (C(hidepid=2) of C(/proc)). Root and the group C(adm) see all.
      - Services that look into other users' processes without being root, such as C(polkit) and some exporters, have to
        be in that group. For C(systemd-logind) that is done, from its next start on.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Says what it would do, without changing anything. A missing package is only warned of.
  platform:
    description: Debian's and EL's PAM stacks.
notes:
  - Needs C(PrologFlags=Contain) in C(slurm.conf).
seealso:
  - module: hpcai.azure.cluster_users
  - name: pam_slurm_adopt
    description: Slurm's documentation of it, with the reasons for what is done here.
    link: https://slurm.schedmd.com/pam_slurm_adopt.html
"""

EXAMPLES = r"""
- name: Let users in where they have a job, and the people who run the cluster always
  hpcai.azure.compute_access:
    node_name: compute-17
    admins: [azureuser]

- name: Let nodes made of this image see to it themselves
  hpcai.azure.compute_access:
    when: boot

- name: Let everybody in again
  hpcai.azure.compute_access:
    state: absent
"""

RETURN = r"""
files:
  description: Files that were written or removed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample:
    - /etc/at.allow
    - /etc/cron.allow
    - /etc/hpcai/access.json
    - /etc/hpcai/ssh_admin_groups
    - /etc/hpcai/ssh_admins
    - /etc/pam.d/hpcai-common-session
    - /etc/pam.d/sshd
actions:
  description: What was done besides, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample:
    - mount /proc with hidepid=2,gid=4
"""

import os
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.options import AccessOptions
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.pam import PamProblem
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all, diff_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import UserProblem

REFUSING = ["action_no_jobs=deny", "action_unknown=newest", "action_adopt_failure=deny", "action_generic_failure=deny"]


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "admins": {"type": "list", "elements": "str", "default": []},
            "admin_groups": {"type": "list", "elements": "str", "default": ["sudo", "wheel"]},
            "when": {"type": "str", "choices": ["now", "boot"], "default": "now"},
            "node_name": {"type": "str"},
            "options": {"type": "list", "elements": "str", "default": REFUSING},
            "nss_slurm": {"type": "bool", "default": False},
            "spool_dir": {"type": "path", "default": "/var/lib/slurm/slurmd"},
            "hide_processes": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params
    options = AccessOptions(
        present=asked["state"] == "present",
        admins=tuple(asked["admins"]),
        admin_groups=tuple(asked["admin_groups"]),
        node_name=asked["node_name"],
        options=tuple(asked["options"]),
        nss=asked["nss_slurm"],
        spool=asked["spool_dir"],
        me=os.environ.get("SUDO_USER", ""),
        hide_processes=asked["hide_processes"],
    )
    try:
        if asked["when"] == "boot":
            made = plan.plan_for_boot(Root("/"), options)
        else:
            made = plan.plan(Root("/"), options, run, may_come=module.check_mode)
        if not module.check_mode:
            apply_all(made.files)
        now = asked["when"] == "now"
        actions = plan.remount_proc(Root("/"), options, run, module.check_mode) if now else []
    except (PamProblem, UserProblem, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in made.warnings:
        module.warn(warning)
    files = [change.path for change in made.files]
    module.exit_json(changed=bool(files or actions), files=files, actions=actions, diff=diff_of(made.files))


if __name__ == "__main__":
    main()
