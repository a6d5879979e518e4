# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module of a task in the background, and shows how far it is."""

from __future__ import annotations

import contextlib
import posixpath
import re
import secrets
import shlex
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._node.forms import LONGEST_S
from ..module_utils._node.machine.progress import ABANDONED_S, PROGRESS, WATCHED
from ._progress import Progress

EVERY_S = 5.0
ASK_S = 60.0
"""While the module shows how far it is, Ansible asks for its result only this often, because this takes a module."""
RESTARTED = 97
"""Exit status of the look if the host has restarted, so that the module has ended without a result."""
_READ_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
_BOOT_ID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.MULTILINE)
_OUTPUT = ("stdout", "stderr", "stdout_lines", "stderr_lines")
_OF_ASYNC = ("ansible_job_id", "started", "finished", "results_file", *_OUTPUT)
"""Keys that Ansible adds to the result of a module in the background."""


class Background:
    """The module of a task in the background, with the option ``progress``: the folder where it says how far it is.

    :param action: the action of the task.
    :param name: part of the folder's name.
    """

    def __init__(self, action: ActionBase, task_vars: dict[str, Any], name: str) -> None:
        self._action, self._task_vars = action, task_vars
        # Nobody can guess the name, so nobody else can create it.
        self._folder = f"/tmp/hpcai-{name}-{secrets.token_hex(16)}"

    def run(self) -> dict[str, Any]:
        """Start the module, look how far it is until it ends, and return its result."""
        boot_id = _BOOT_ID.search(self._action._low_level_execute_command(_READ_BOOT_ID)["stdout"])
        started = self._start()
        if "ansible_job_id" not in started:
            # Ansible says that a module in the background has changed something, even if it did not start.
            return {**started, "changed": False}
        found = self._wait(started, boot_id[0] if boot_id else "")
        with contextlib.suppress(AnsibleConnectionFailure):
            self._status(started, mode="cleanup")
        return {name: value for name, value in found.items() if name not in _OF_ASYNC}

    def _start(self) -> dict[str, Any]:
        task = self._action._task
        # What the module runs has timeouts of its own.
        task.async_val = LONGEST_S
        try:
            given = {**task.args, "progress": self._folder}
            started: dict[str, Any] = self._action._execute_module(
                module_args=given, task_vars=self._task_vars, wrap_async=True
            )
        finally:
            task.async_val = 0
        return started

    def _status(self, started: dict[str, Any], mode: str = "status") -> dict[str, Any]:
        job, path = started["ansible_job_id"], started["results_file"]
        given = {"jid": job, "mode": mode, "_async_dir": posixpath.dirname(path)}
        found: dict[str, Any] = self._action._execute_module(
            module_name="ansible.legacy.async_status", module_args=given, task_vars=self._task_vars
        )
        return found

    def _wait(self, started: dict[str, Any], boot_id: str) -> dict[str, Any]:
        """Return the module's result. A host that does not answer for a while is no reason to give up."""
        progress = Progress(str(self._action._task.delegate_to or self._task_vars["inventory_hostname"]))
        look = self._look(boot_id)
        answered = asked = time.monotonic()
        while True:
            time.sleep(EVERY_S)
            found: dict[str, Any] = {}
            try:
                shown = self._action._low_level_execute_command(look)
                state = shown["stdout"].strip() if shown["rc"] == 0 else ""
                # The module removes its folder when it ends.
                if not state or time.monotonic() - asked >= ASK_S:
                    asked = time.monotonic()
                    found = self._status(started)
            except AnsibleConnectionFailure:
                # After this time the module gives up too.
                if time.monotonic() - answered > ABANDONED_S:
                    raise
                continue
            answered = time.monotonic()
            if found.get("finished"):
                return found
            if shown["rc"] == RESTARTED:
                return {"failed": True, "msg": "The host restarted before the module ended, so there is no result."}
            if state:
                progress.say(state)

    def _look(self, boot_id: str) -> str:
        """Return the command that shows how far the module is, and lets the module know that somebody looks."""
        quoted = shlex.quote(self._folder)
        look = f"touch {quoted}/{WATCHED} && cat {quoted}/{PROGRESS}"
        return f'test "$({_READ_BOOT_ID})" = {boot_id} || exit {RESTARTED}; {look}' if boot_id else look
