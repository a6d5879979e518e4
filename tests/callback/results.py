# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes each task's result, with its host, as a line of JSON to the file that HPCAI_RESULTS names."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: results
type: aggregate
short_description: Each task's result as a line of JSON
description:
  - For tests that check the results of modules on a node.
"""


class CallbackModule(CallbackBase):
    """The callbacks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results"

    def _write(self, result: Any, verdict: str) -> None:
        known = getattr(result, "result", None) or result._result
        kept = {name: value for name, value in known.items() if not name.startswith("_ansible")}
        host = getattr(result, "host", None) or result._host
        with open(os.environ["HPCAI_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"host": host.name, "verdict": verdict, "result": kept}, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task succeeded."""
        self._write(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed."""
        self._write(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """The host was unreachable."""
        self._write(result, "unreachable")
