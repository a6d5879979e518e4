#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_associations
short_description: Manage the accounts, users, limits and QOS of a Slurm cluster
version_added: "0.1.0"
description:
  - Compares the records of slurmdbd with the options, and changes differences with C(sacctmgr).
  - Changes only what is listed. Accounts, users and QOS that are not listed stay as they are, unless O(purge) is set.
    Limits that are not listed always stay.
  - After a change it reads the records of slurmdbd again, and fails if they still differ, because C(sacctmgr) exits
    with success for some refused changes.
  - Run it where C(sacctmgr) may change accounts, normally on the controller as root.
author:
  - hpcai.azure contributors (@hpcai)
options:
  cluster:
    description: Slurm's name of the cluster. It is added if slurmdbd does not know it.
    type: str
    required: true
  accounts:
    description:
      - Dictionary with account names as keys. The value of each can have the keys C(Description), C(Organization),
        C(users), C(accounts) (its child accounts), and settings of C(sacctmgr) such as C(Fairshare), C(GrpTRES),
        C(MaxJobs), C(MaxWall), C(QOS) and C(DefaultQOS).
      - C(users) is a list of names, or a dictionary with names as keys and settings of C(sacctmgr) as values. Two more
        settings are allowed for a user. C(default=true) makes this account the user's default account. C(AdminLevel) is
        V(None), V(Operator) or V(Administrator).
      - "A limit of resources (TRES) is a mapping such as C({cpu: 64, gres/gpu: 8}). A time is a number of minutes, or
        a string such as V(2-12:00:00). Null removes a limit."
      - Names are converted to lower case, as C(sacctmgr) does.
    type: dict
    default: {}
  qos:
    description: Dictionary with the names of QOS as keys, and as values settings of C(sacctmgr) such as C(Priority),
      C(MaxJobsPerUser) and C(MaxTRESPerUser).
    type: dict
    default: {}
  purge:
    description:
      - Remove the accounts, users and QOS that are not listed. The module never removes the account V(root), its user
        V(root), or the QOS V(normal). It ignores settings that a user has for a single partition only.
      - C(sacctmgr) refuses to remove an account that has running jobs, or that is the default account of a remaining
        user. The module then fails.
    type: bool
    default: false
  timeout:
    description: How many seconds to wait for slurmdbd to answer.
    type: int
    default: 60
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - If slurmdbd does not answer in check mode, the module reports a change and warns, because the tasks that start
        slurmdbd have not run either.
  diff_mode:
    description: Shows each setting before and after.
  platform:
    description: Works with Slurm 22.05 and later.
notes:
  - A limit on C(gres/gpu) can be set only after slurmctld has registered that resource with slurmdbd
    (C(AccountingStorageTRES)).
"""

EXAMPLES = r"""
- name: Set the fair shares of two groups, and limit each user to 16 GPUs at a time
  hpcai.azure.slurm_associations:
    cluster: hpcai
    qos:
      normal:
        MaxTRESPerUser: {gres/gpu: 16}
      urgent:
        Priority: 1000
        MaxJobsPerUser: 1
        MaxWall: "4:00:00"
    accounts:
      vision:
        Fairshare: 60
        QOS: [normal, urgent]
        users: [alice, bob]
      language:
        Fairshare: 40
        GrpTRES: {gres/gpu: 256}
        users:
          carol:
            default: true
            MaxJobs: 20
"""

RETURN = r"""
commands:
  description: Commands of C(sacctmgr) that the module ran. In check mode, the commands that it would run.
  returned: success
  type: list
  elements: str
  sample:
    - add account vision cluster=hpcai parent=root
    - modify account where name=vision cluster=hpcai set Fairshare=60 QOS=normal,urgent
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run, wait_until
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import associations
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.limits import BadSetting


def read(module: AnsibleModule) -> associations.Book:
    """Return the records of slurmdbd. If it does not answer in check mode, warn and return no records."""

    def answers() -> bool:
        return run(["sacctmgr", "--noheader", "--parsable2", "show", "cluster"]).rc == 0

    if not wait_until(answers, 0 if module.check_mode else module.params["timeout"]) and module.check_mode:
        module.warn("slurmdbd does not answer. Check mode cannot tell whether this run would have started it.")
        return associations.Book(has_cluster=False)
    return associations.read_book(module.params["cluster"], run)


def keep(module: AnsibleModule) -> tuple[associations.Step, ...]:
    """Change the records of slurmdbd to the options, and return the steps."""
    cluster, purge = module.params["cluster"], module.params["purge"]
    desired = associations.desired_book(module.params["accounts"], module.params["qos"])
    steps = associations.plan(cluster, read(module), desired, purge)
    if steps and not module.check_mode:
        answers = associations.apply(steps, run)
        remaining = associations.plan(cluster, associations.read_book(cluster, run), desired, purge)
        if remaining:
            raise CommandFailed(
                f"sacctmgr did not do '{' '.join(remaining[0].words)}'. Output: {' | '.join(filter(None, answers))}"
            )
    return steps


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "accounts": {"type": "dict", "default": {}},
            "qos": {"type": "dict", "default": {}},
            "purge": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        steps = keep(module)
    except (BadSetting, CommandFailed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(steps),
        commands=[" ".join(step.words) for step in steps],
        diff={
            "before": "".join(f"{step.before}\n" for step in steps if step.before),
            "after": "".join(f"{step.after}\n" for step in steps if step.after),
        },
    )


if __name__ == "__main__":
    main()
