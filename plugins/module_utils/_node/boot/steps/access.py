# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step access: who may log in to this node by ssh, for one that joins without a playbook.

Its image says that only people with a job may, and admins. The node's name, by which sshd asks Slurm for jobs, is known
when the machine is. So is its admin, who may become root by a rule of his own and be in none of the groups of admins:
he must never be locked out.

Where it cannot be done, no job starts here: users of other jobs would reach its processes and files.
"""

from __future__ import annotations

from dataclasses import replace

from ...health.check import FAIL, PASS, SKIP
from ...machine.cluster_settings import LOGIN, cluster_of
from ...machine.vm_size import remembered_admin
from ...setup.access.options import SETTINGS, read_options
from ...setup.access.pam import PamProblem
from ...setup.access.plan import plan, remount_proc
from ...setup.managed_file import apply_all
from ...setup.users.options import UserProblem
from ...slurm import slurmd_env
from ..step import Context, Outcome, Step

_OPEN = "people would log in here without a job"
_AGAIN = "Mend that, then 'hpcnode boot run access'"


def _perform(context: Context) -> Outcome:
    env = slurmd_env.read(context.root)
    if env is None:
        return Outcome(SKIP, f"no slurmd runs here: {slurmd_env.ENV_FILE} is not there")
    cluster = cluster_of(context.root)
    if cluster and LOGIN in cluster.functions:
        return Outcome(SKIP, "this is a login node too, where people need no job")
    options = read_options(context.root, env.node_name)
    if options is None:
        return Outcome(SKIP, f"no {SETTINGS}, so people log in without a job")
    admin = remembered_admin(context.root)
    if admin is None:
        return Outcome(FAIL, f"{_OPEN}: the metadata service has not said who this machine's admin is", _AGAIN)
    options = replace(options, admins=tuple(dict.fromkeys([*options.admins, admin])), me=admin)
    try:
        made = plan(context.root, options, context.run, may_come=False)
    except (PamProblem, UserProblem) as error:
        return Outcome(FAIL, f"{_OPEN}: {error}", _AGAIN)
    if not context.check:
        apply_all(made.files)
    hidden = remount_proc(context.root, options, context.run, context.check)
    changes = tuple(f"{'write' if change.after is not None else 'remove'} {change.path}" for change in made.files)
    changes += tuple(hidden)
    admins = ", ".join([*options.admins, *(f"%{group}" for group in options.admin_groups)])
    return Outcome(PASS, f"who has no job here and is none of {admins} is refused by sshd", changes=changes)


STEP = Step("access", "Let people log in where they have a job", blocking=True, limit_s=30, perform=_perform)
