# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drains nodes with the module, and with ``wait`` runs it until their jobs have ended, showing how many are left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..modules.slurm_leave import SPEC
from ..plugin_utils._progress import Progress, count, in_words

EVERY_S = 5.0


class ActionModule(ActionBase):
    """hpcai.azure.slurm_leave."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, and wait if requested."""
        base_result = super().run(tmp, task_vars)
        _valid, options = self.validate_argument_spec(SPEC)
        variables = task_vars or {}
        first = self._look(variables, {})
        waits = options["wait"] and not self._task.check_mode and not first.get("failed")
        if not waits or not first["busy"]:
            return {**base_result, **first}
        last = self._wait(variables, first)
        # The first run drained the nodes.
        drained: dict[str, Any] = {name: first[name] for name in ("changed", "drained", "diff") if name in first}
        return {**base_result, **last, **drained}

    def _look(self, task_vars: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in self._task.args.items() if name != "wait"}
        found: dict[str, Any] = self._execute_module(module_args={**given, **more}, task_vars=task_vars)
        return found

    def _wait(self, task_vars: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
        """Run the module until no job is left or the deadline has passed, and return its last result.

        Until then, a slurmctld or a node that does not answer for a while is no reason to give up.
        """
        progress = Progress(str(self._task.delegate_to or task_vars["inventory_hostname"]))
        ends = time.monotonic() + first["seconds_left"]
        found = first
        while True:
            if found.get("failed"):
                state = f"no answer ({str(found.get('msg', 'no reason given')).splitlines()[0]})"
                is_over = time.monotonic() >= ends
            else:
                state, is_over = words_of(found["busy"]), found["time_is_over"] or not found["busy"]
            if is_over:
                return found
            progress.say(state, f"{in_words(ends - time.monotonic())} to the deadline")
            time.sleep(max(0.1, min(EVERY_S, ends - time.monotonic())))
            try:
                found = self._look(task_vars, {"deadline": first["deadline"]})
            except AnsibleConnectionFailure as error:
                if time.monotonic() >= ends:
                    raise
                found = {"failed": True, "msg": str(error)}


def words_of(busy: Mapping[str, list[str]]) -> str:
    """Return how many jobs are left. A job on several nodes counts once."""
    jobs = {job for on_node in busy.values() for job in on_node}
    ending = [node for node, on_node in busy.items() if not on_node]
    parts = ([f"{count(len(jobs), 'job')} left"] if jobs else []) + (
        [f"a job is ending on {count(len(ending), 'node')}"] if ending else []
    )
    return ", ".join(parts)
