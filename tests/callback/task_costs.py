# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a line of JSON for each task on each host, including skipped ones, to the file that HPCAI_TASK_COSTS names."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: task_costs
type: aggregate
short_description: Which tasks a play costs each host
description:
  - For the test that counts the tasks of a converged node, and for the benchmark of site.yml.
"""


class CallbackModule(CallbackBase):
    """The callbacks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_costs"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._began: dict[tuple[str, str], float] = {}

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A task starts on a host."""
        self._began[host.get_name(), task._uuid] = time.monotonic()

    def _write(self, result: Any, verdict: str) -> None:
        # The accessors are new in ansible-core 2.19.
        host = (getattr(result, "host", None) or result._host).get_name()
        task = getattr(result, "task", None) or result._task
        known = getattr(result, "result", None) or result._result
        began = self._began.pop((host, task._uuid), time.monotonic())
        role = task._role.get_name(include_role_fqcn=False) if task._role else ""
        line = {
            "host": host,
            "role": role.rpartition(".")[2],
            "task": task.name,
            "verdict": verdict,
            "changed": bool(known.get("changed")),
            "seconds": round(time.monotonic() - began, 3),
        }
        with open(os.environ["HPCAI_TASK_COSTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task succeeded."""
        self._write(result, "ok")

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task was skipped."""
        self._write(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed."""
        self._write(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """The host was unreachable."""
        self._write(result, "unreachable")
