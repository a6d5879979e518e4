#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: compute_access
short_description: Allow logins to a compute node only for admins and for users with a job on it
version_added: "0.1.0"
description:
  - Adds C(pam_slurm_adopt) to the account phase of sshd's PAM stack. A user without a job on the node is refused with a
    message. The session of a user with a job becomes part of this job. It then has the job's limits, and ends with the
    job.
  - Admins are admitted before that check, by user name or by group (C(pam_listfile)). All other checks of the stack
    remain.
  - Makes sshd use copies of the included PAM files (C(/etc/pam.d/hpcai-*)) without C(pam_systemd), because
    C(pam_systemd) would move the session out of the job again. Consoles and services still use C(pam_systemd).
  - Allows C(cron) and C(at) for root only, because processes that they start belong to no job. For this, the module
    creates empty files C(/etc/cron.allow) and C(/etc/at.allow). An existing file stays unchanged.
  - Prevents that systemd starts a user's own services while the user is not logged in (C(loginctl enable-linger)), for
    the same reason.
  - The module fails, and writes nothing, if the user that Ansible logs in as would be locked out, or if no admin has an
    account on the machine. It also fails if the node lacks something that is required, such as a PAM module.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(absent) restores sshd's PAM stack and removes the files that the module wrote. C(/etc/cron.allow) and
        C(/etc/at.allow) are removed only if they are empty.
    type: str
    choices: [present, absent]
    default: present
  admins:
    description: Users who may always log in, in addition to root.
    type: list
    elements: str
    default: []
  admin_groups:
    description: Groups whose members may always log in. A group that does not exist on the machine is ignored.
    type: list
    elements: str
    default: [sudo, wheel]
  when:
    description:
      - V(now) applies the rules now and again at each boot.
      - V(boot) does not change the logins of this machine, and applies the rules at each boot. Use V(boot) in an image,
        because the name and the users of its nodes are not known yet.
    type: str
    choices: [now, boot]
    default: now
  node_name:
    description:
      - The node's name in Slurm, which often differs from the host name. C(pam_slurm_adopt) uses it to find the node's
        jobs.
      - Defaults to the host name, which must then be the node's name in Slurm.
    type: str
  options:
    description:
      - Options of C(pam_slurm_adopt). By default, a session that cannot be made part of a job is refused. With Slurm's
        own defaults, it would be admitted.
    type: list
    elements: str
    default: [action_no_jobs=deny, action_unknown=newest, action_adopt_failure=deny, action_generic_failure=deny]
  nss_slurm:
    description:
      - Whether to look up the names of a job's user and groups with C(nss_slurm), which reads them from the job. Use
        V(true) for accounts from a directory service, so that the node need not ask this service. V(true) needs the
        package of C(nss_slurm), and C(LaunchParameters=enable_nss_slurm) in C(slurm.conf).
    type: bool
    default: false
  spool_dir:
    description: Slurmd's spool directory (C(SlurmdSpoolDir)), for C(nss_slurm).
    type: path
    default: /var/lib/slurm/slurmd
  hide_processes:
    description:
      - Whether users see only their own processes (C(hidepid=2) of C(/proc)). Root and the group C(adm) see the
        processes of all users.
      - Services that inspect other users' processes without being root, such as C(polkit) and some exporters, must be
        in the group C(adm). The module adds C(systemd-logind) to this group. This takes effect when C(systemd-logind)
        starts the next time.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description:
      - Reports what it would do, without changing anything. A missing package only causes a warning.
  platform:
    description: Works with the PAM stacks of Debian and EL.
notes:
  - Needs C(PrologFlags=Contain) in C(slurm.conf).
seealso:
  - module: hpcai.azure.cluster_users
  - name: pam_slurm_adopt
    description: Slurm's documentation, with the reasons for these settings.
    link: https://slurm.schedmd.com/pam_slurm_adopt.html
"""

EXAMPLES = r"""
- name: Admit users only where they have a job, but always admit the cluster's operators
  hpcai.azure.compute_access:
    node_name: compute-17
    admins: [azureuser]

- name: Apply the rules at each boot of the nodes that use this image
  hpcai.azure.compute_access:
    when: boot

- name: Admit all users again
  hpcai.azure.compute_access:
    state: absent
"""

RETURN = r"""
files:
  description: Files that the module wrote or removed. In check mode, the files that it would write or remove.
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
    - /etc/systemd/system/user@.service.d/50-hpcai-lingering.conf
actions:
  description: Other actions that the module took. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - mount /proc with hidepid=2,gid=4
"""

import os
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.options import ARGUMENTS, options_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.pam import PamProblem
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all, diff_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import UserProblem


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "when": {"type": "str", "choices": ["now", "boot"], "default": "now"},
            "node_name": {"type": "str"},
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    asked = module.params
    present, me = asked["state"] == "present", os.environ.get("SUDO_USER", "")
    try:
        options = options_of(asked, present, asked["node_name"], me)
        if asked["when"] == "boot":
            made = plan.plan_for_boot(Root("/"), options)
        else:
            made = plan.plan(Root("/"), options, run, may_come=module.check_mode)
        if not module.check_mode:
            apply_all(made.files)
        now = asked["when"] == "now"
        actions = plan.remount_proc(Root("/"), options, run, module.check_mode) if now else []
    except (ConfigError, PamProblem, UserProblem, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in made.warnings:
        module.warn(warning)
    files = [change.path for change in made.files]
    module.exit_json(changed=bool(files or actions), files=files, actions=actions, diff=diff_of(made.files))


if __name__ == "__main__":
    main()
