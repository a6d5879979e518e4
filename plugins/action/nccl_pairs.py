# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module in the background, and shows how many pairs of nodes are done."""

from __future__ import annotations

import posixpath
import secrets
import shlex
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._node.forms import LONGEST_S
from ..module_utils._node.machine.progress import ABANDONED_S, PROGRESS, WATCHED
from ..plugin_utils._progress import Progress

EVERY_S = 5.0
_OUTPUT = ("stdout", "stderr", "stdout_lines", "stderr_lines")
_OF_ASYNC = ("ansible_job_id", "started", "finished", "results_file", *_OUTPUT)
"""Keys that Ansible adds to the result of a module in the background."""


class ActionModule(ActionBase):
    """hpcai.azure.nccl_pairs."""

    TRANSFERS_FILES = False
    _supports_async = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start the module, and look how far it is until it ends."""
        base_result = super().run(tmp, task_vars)
        variables = task_vars or {}
        if self._task.check_mode or self._task.async_val:
            return {**base_result, **self._execute_module(task_vars=variables, wrap_async=self._task.async_val)}
        # Nobody can guess the name, so nobody else can create it.
        folder = f"/tmp/hpcai-nccl-pairs-{secrets.token_hex(16)}"
        started = self._start(variables, folder)
        if "ansible_job_id" not in started:
            return {**base_result, **started}
        found = self._wait(variables, folder, started)
        self._status(variables, started, mode="cleanup")
        return {**base_result, **{name: value for name, value in found.items() if name not in _OF_ASYNC}}

    def _start(self, task_vars: dict[str, Any], folder: str) -> dict[str, Any]:
        # The runs have timeouts of their own.
        self._task.async_val = LONGEST_S
        try:
            given = {**self._task.args, "progress": folder}
            started: dict[str, Any] = self._execute_module(module_args=given, task_vars=task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0
        return started

    def _status(self, task_vars: dict[str, Any], started: dict[str, Any], mode: str = "status") -> dict[str, Any]:
        job, path = started["ansible_job_id"], started["results_file"]
        given = {"jid": job, "mode": mode, "_async_dir": posixpath.dirname(path)}
        found: dict[str, Any] = self._execute_module(
            module_name="ansible.legacy.async_status", module_args=given, task_vars=task_vars
        )
        return found

    def _wait(self, task_vars: dict[str, Any], folder: str, started: dict[str, Any]) -> dict[str, Any]:
        """Return the module's result. A host that does not answer for a while is no reason to give up."""
        progress = Progress(str(self._task.delegate_to or task_vars["inventory_hostname"]))
        quoted = shlex.quote(folder)
        look = f"touch {quoted}/{WATCHED} && cat {quoted}/{PROGRESS}"
        answered = time.monotonic()
        while True:
            time.sleep(EVERY_S)
            try:
                shown = self._low_level_execute_command(look)
                found = self._status(task_vars, started)
            except AnsibleConnectionFailure:
                # After this time the module gives up too.
                if time.monotonic() - answered > ABANDONED_S:
                    raise
                continue
            answered = time.monotonic()
            if found.get("finished"):
                return found
            if shown["rc"] == 0 and shown["stdout"].strip():
                progress.say(shown["stdout"].strip())
