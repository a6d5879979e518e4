# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Look, plan, do: the way of the module cluster_users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.config import as_config
from ...machine.root import Root
from ...machine.run import Run, must
from ..managed_file import FileChange, change_of
from . import homes
from .facts import read_facts
from .plan import plan
from .wanted import Wanted

RECORD = "/etc/hpcai/users.json"


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be.

    :ivar actions: in words and in order.
    :ivar record: the change of the record.
    """

    actions: tuple[str, ...]
    record: FileChange

    @property
    def diff(self) -> Mapping[str, str]:
        """The change in the form of Ansible's diff."""
        return {"before": "", "after": "".join(f"{action}\n" for action in self.actions)} if self.actions else {}


def ensure(root: Root, wanted: Wanted, mode: str, run: Run, check: bool, give: homes.Give = os.fchown) -> Outcome:
    """Give the machine the wanted accounts.

    :param mode: where homes are made: one of homes.MODES.
    :raises UserProblem: it cannot be; then no account was touched, if it is about names and numbers.
    :raises CommandFailed: a command failed; those before it did their work.
    """
    actions = []
    for step in plan(read_facts(root), wanted):
        if not check:
            must(run(step.command))
        actions.append(step.words)
    for user in wanted.users:
        if not user.present or mode == homes.NEVER or (mode == homes.AUTO and homes.is_remote(root, user.home)):
            continue
        actions += filter(None, [homes.make(root, user, check, give), homes.write_keys(root, user, check, give)])
    record = change_of(root.at(RECORD), as_config(_record(wanted)))
    if record.changes and (wanted.users or wanted.groups or record.before is not None):
        actions.append(f"write {RECORD}")
        if not check:
            record.apply()
    return Outcome(tuple(actions), record)


def _record(wanted: Wanted) -> dict[str, Any]:
    """Return who is the cluster's, for whoever has to tell them from the machine's own accounts."""
    return {
        "groups": {group.name: group.gid for group in wanted.groups if group.present},
        "users": {
            user.name: {"uid": user.uid, "gid": user.gid, "home": user.home} for user in wanted.users if user.present
        },
    }
