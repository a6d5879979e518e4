# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests the deletion of machines from hpcai-elastic until they are gone, and shows how many are left."""

from __future__ import annotations

import json
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..plugin_utils._progress import Progress, count, in_words

SPEC = {
    "vm_ids": {"type": "list", "elements": "str", "required": True},
    "reason": {"type": "str", "required": True},
    "timeout": {"type": "int", "default": 3600},
}
EVERY_S = 5.0
GONE, LEFT = 0, 2
"""Exit statuses of ``hpcnode elastic retire``."""


class ActionModule(ActionBase):
    """hpcai.azure.elastic_leave."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Request the deletion, and wait for it."""
        result = super().run(tmp, task_vars)
        _valid, options = self.validate_argument_spec(SPEC)
        if self._task.check_mode:
            return {**result, "changed": True, "machines": {}}
        variables = task_vars or {}
        progress = Progress(str(self._task.delegate_to or variables["inventory_hostname"]))
        command = ["hpcnode", "elastic", "retire", "--json", "--reason", options["reason"], *options["vm_ids"]]
        ends = time.monotonic() + options["timeout"]
        while True:
            rc, machines, problem = self._request(command, variables)
            if rc == GONE:
                return {**result, "changed": True, "machines": {}}
            if time.monotonic() >= ends:
                return {**result, "failed": True, "changed": True, "machines": machines, "msg": problem}
            state = f"no answer ({problem})" if rc != LEFT else f"{count(len(machines), 'machine')} left"
            progress.say(state, f"{in_words(ends - time.monotonic())} to the deadline")
            time.sleep(max(0.1, min(EVERY_S, ends - time.monotonic())))

    def _request(self, command: list[str], task_vars: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        """Return the exit status, the machines that are left by node, and what is wrong; -1 without an answer."""
        try:
            done = self._execute_module(
                module_name="ansible.legacy.command", module_args={"argv": command}, task_vars=task_vars
            )
        except AnsibleConnectionFailure as error:
            return -1, {}, str(error).splitlines()[0]
        rc = int(done.get("rc", -1))
        if rc not in (GONE, LEFT):
            words = str(done.get("stderr") or "").strip() or str(done.get("msg") or "").strip() or "no reason given"
            return rc, {}, words.splitlines()[-1]
        shown = json.loads(done.get("stdout") or "{}")
        machines = dict(shown.get("machines") or {})
        return rc, machines, f"still there: {', '.join(sorted(machines))}."
