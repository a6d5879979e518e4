# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes one health report about all nodes. It runs on the control node, because all results are there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._node.version import VERSION
from ..plugin_utils._azure.errors import InventoryError, printable
from ..plugin_utils._report import benchmarks, output
from ..plugin_utils._report.gather import NodeResult, as_plain_values, find_suspects, gather, is_time, registered
from ..plugin_utils._report.outliers import compare
from ..plugin_utils._report.output import HTML, JSON, write_report
from ..plugin_utils._slurm.cluster import node_name

_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "default": "health-report"},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "variable": {"type": "str", "required": True},
    "tier": {"type": "str", "required": True},
    "cluster": {"type": "str", "default": ""},
    "limit": {"type": "str", "default": ""},
}
_OF_THE_INVENTORY = ("azure_id", "azure_vm_id", "azure_vm_size")


class ActionModule(ActionBase):
    """hpcai.azure.health_report."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Gather the results, find outliers, and write the report."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        if not options["hosts"]:
            raise AnsibleActionFail("hosts is empty, so there is nothing to report.")
        hostvars = (task_vars or {}).get("hostvars") or {}
        asked = [_asked(host, hostvars, options["variable"]) for host in dict.fromkeys(options["hosts"])]
        folder = os.path.abspath(options["path"])
        try:
            measured = benchmarks.read(folder)
        except InventoryError as error:
            raise AnsibleActionFail(str(error)) from error
        shown = [benchmarks.with_benchmarks(one, measured) for one in asked]
        report = gather(
            shown,
            tier=options["tier"],
            time=_latest(asked),
            cluster=options["cluster"],
            limit=options["limit"],
            collection=VERSION,
        )
        report = compare(report)
        try:
            report["suspects"] = find_suspects(asked, folder)
        except InventoryError as error:
            raise AnsibleActionFail(str(error)) from error
        lines = [*output.table(report), *(printable(each["warning"]) for each in report["suspects"])]
        try:
            written = write_report(report, folder, dry=self._task.check_mode)
        except OSError as error:
            raise AnsibleActionFail(f"path: the report cannot be written: {error}") from error
        return {
            "changed": written.changed,
            "verdict": report["verdict"],
            "counts": report["counts"],
            "outliers": len(report["outliers"]),
            "table": lines,
            "html": os.path.join(folder, HTML),
            "json": os.path.join(folder, JSON),
            "diff": {
                "before_header": folder,
                "after_header": folder,
                "before": written.before,
                "after": "".join(f"{line}\n" for line in lines),
            },
        }


def _asked(host: str, hostvars: Mapping[str, Any], variable: str) -> NodeResult:
    # For an unknown host, get() of Ansible's mapping would not return the default, because no KeyError is raised.
    variables = hostvars[host] if host in hostvars else {}  # noqa: SIM401
    result = registered(hostvars, host, variable) or {}
    if not isinstance(result, Mapping):
        raise AnsibleActionFail(f"variable: {variable} of host {host} is not the result of a task.")
    inventory = {name: variables.get(name) for name in _OF_THE_INVENTORY}
    if host in hostvars:
        # As in slurm.conf. A node's own answer could name another node, which a copied command would then drain.
        inventory["slurm_node_name"] = node_name(variables)
    return NodeResult(str(host), result, as_plain_values(inventory))


def _latest(asked: list[NodeResult]) -> str:
    """Return the time of the latest result, so that the same results give the same report, or the current time."""
    documents = [one.result.get("health") for one in asked]
    times = [str(document.get("time") or "") for document in documents if isinstance(document, Mapping)]
    return max(filter(is_time, times), default="") or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
