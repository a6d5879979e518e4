# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Joins the fetched diagnostics to one archive. It runs on the control node."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure.errors import printable
from ..plugin_utils._report.gather import registered
from ..plugin_utils._report.incident import NodeArchive, write_incident

_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "default": "diagnostics"},
    "parts": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "variable": {"type": "str", "required": True},
    "reasons": {"type": "dict", "default": {}},
    "unlisted": {"type": "dict", "default": {}},
    "cluster": {"type": "str", "default": ""},
    "pseudonyms": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """hpcai.azure.diag_bundle."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Join the archives of all hosts."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        hostvars = (task_vars or {}).get("hostvars") or {}
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        path = os.path.join(os.path.abspath(options["path"]), f"hpcai-incident-{stamp}.tar.gz")
        archives = [_archive_of(host, hostvars, options) for host in dict.fromkeys(options["hosts"])]
        archives += _unlisted(options["unlisted"], options["pseudonyms"])
        if self._task.check_mode:
            return {"changed": True, "path": path, "machines": {}, "table": []}
        title = "Diagnostics" if options["pseudonyms"] else f"Diagnostics {options['cluster']}".rstrip()
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            machines = write_incident(archives, path, title, now)
        except OSError as error:
            raise AnsibleActionFail(f"path: the archive cannot be written: {error}") from error
        lines = [
            f"{host}: {printable(about['problem']) or str(about['items']) + ' items'}"
            for host, about in machines.items()
        ]
        return {"changed": True, "path": path, "machines": machines, "table": lines}


def _unlisted(reasons: Mapping[str, Any], pseudonyms: bool) -> list[NodeArchive]:
    """Return the machines that are not in the inventory, without their names and reasons if names are replaced."""
    why = "it is not a compute node of the inventory, so nothing was collected"
    if pseudonyms:
        return [NodeArchive(f"unlisted-{number}", problem=why) for number in range(1, len(reasons) + 1)]
    return [NodeArchive(name, problem=why, reason=str(reason)) for name, reason in sorted(reasons.items())]


def _archive_of(host: str, hostvars: Mapping[str, Any], options: Mapping[str, Any]) -> NodeArchive:
    result = registered(hostvars, host, options["variable"])
    made = result if isinstance(result, Mapping) else {}
    fetched = os.path.join(os.path.abspath(options["parts"]), f"{host}.tar.gz")
    shown = str(made.get("node") or host) if options["pseudonyms"] else host
    # A machine chooses its pseudonym itself, so it must not be a path.
    shown = shown if shown.replace("-", "").replace("_", "").replace(".", "").isalnum() else host
    reason = "" if options["pseudonyms"] else str(options["reasons"].get(host, ""))
    if made.get("path") and os.path.isfile(fetched):
        return NodeArchive(shown, fetched, reason=reason)
    if made.get("path"):
        return NodeArchive(shown, problem="its archive could not be fetched", reason=reason)
    why = "it could not be reached" if made.get("unreachable") else str(made.get("msg") or "nothing was collected")
    if options["pseudonyms"]:
        # The message may contain names.
        why = "it could not be reached" if made.get("unreachable") else "nothing was collected"
    return NodeArchive(shown, problem=why, reason=reason)
