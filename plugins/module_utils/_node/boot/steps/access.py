# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step access: configures who may log in by ssh, on a node that joins without a playbook.

The image has the settings: only users with a job on the node, and admins, may log in. Two values are known only on the
running machine: the node's name, with which sshd asks Slurm for the user's jobs, and the machine's admin user. This
admin may have a sudo rule without being in a group of admins, and must never be locked out.

If the step fails, no job may start here, because users of other jobs could reach the job's processes and files.
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

_OPEN = "users without a job could log in here"
_AGAIN = "Fix that, then run 'hpcnode boot run access'"


def _perform(context: Context) -> Outcome:
    env = slurmd_env.read(context.root)
    if env is None:
        return Outcome(SKIP, f"no slurmd runs here: {slurmd_env.ENV_FILE} does not exist")
    cluster = cluster_of(context.root)
    if cluster and LOGIN in cluster.functions:
        return Outcome(SKIP, "this is also a login node, where users need no job")
    options = read_options(context.root, env.node_name)
    if options is None:
        return Outcome(SKIP, f"no {SETTINGS}, so users can log in without a job")
    admin = remembered_admin(context.root)
    if admin is None:
        return Outcome(FAIL, f"{_OPEN}: the metadata service did not provide this machine's admin user", _AGAIN)
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
    return Outcome(PASS, f"sshd refuses users without a job on this node, except {admins}", changes=changes)


STEP = Step("access", "Allow users to log in while they have a job here", blocking=True, limit_s=30, perform=_perform)
