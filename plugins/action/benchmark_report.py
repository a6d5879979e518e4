# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a page about the results of benchmarks, and keeps the newest ones for the health report."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._node.bench.benchmark import details_lines
from ..module_utils._node.slurm.hostlist import compress
from ..module_utils._node.version import VERSION
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._report import benchmarks, output
from ..plugin_utils._report.gather import NodeResult, as_plain_values, gather, is_time
from ..plugin_utils._report.outliers import compare
from ..plugin_utils._report.output import HTML, JSON, write_report
from ..plugin_utils._slurm.cluster import node_name

TIER = "benchmark"
_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "default": "benchmark-report"},
    "health_report": {"type": "path", "default": "health-report"},
    "found": {"type": "dict", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "cluster": {"type": "str", "default": ""},
}
_OF_THE_INVENTORY = ("azure_id", "azure_vm_id", "azure_vm_size")


class ActionModule(ActionBase):
    """hpcai.azure.benchmark_report."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Find the results of the inventory's hosts, write the page, and keep the results."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        hostvars = (task_vars or {}).get("hostvars") or {}
        documents = as_plain_values(options["found"].get("nodes") or {})
        asked = list(_results(options["hosts"], hostvars, documents).values())
        if not asked:
            found = options["found"]
            reason = found.get("reason") or found.get("error") or "no host of the inventory took part"
            raise AnsibleActionFail(f"found: there are no results: {reason}")
        times = [str(one.result["health"].get("time") or "") for one in asked]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        latest = max(filter(is_time, times), default="") or now
        report = compare(gather(asked, tier=TIER, time=latest, cluster=options["cluster"], collection=VERSION))
        folder, health = os.path.abspath(options["path"]), os.path.abspath(options["health_report"])
        dry = self._task.check_mode
        page = output.table(report)
        lines = [*page, *_not_measured(options["found"]), *_details(options["found"])]
        try:
            kept = benchmarks.write(health, benchmarks.merged(benchmarks.read(health), asked), dry)
            written = write_report({**report, "suspects": []}, folder, dry=dry)
        except InventoryError as error:
            raise AnsibleActionFail(str(error)) from error
        except OSError as error:
            raise AnsibleActionFail(f"path: the report cannot be written: {error}") from error
        return {
            "changed": written.changed or kept,
            "verdict": report["verdict"],
            "table": lines,
            "html": os.path.join(folder, HTML),
            "json": os.path.join(folder, JSON),
            "diff": {
                "before_header": folder,
                "after_header": folder,
                "before": written.before,
                "after": "".join(f"{line}\n" for line in page),
            },
        }


def _details(found: Mapping[str, Any]) -> Iterator[str]:
    """Return the environment in force, the curve and the scaling of each run that has them: no page has them."""
    for run in as_plain_values(found.get("runs") or []):
        lines = list(details_lines(run.get("details") or {}))
        if lines:
            yield f"{run['name']} on {compress(run['nodes'])}:"
            yield from (f"  {line}" for line in lines)


def _not_measured(found: Mapping[str, Any]) -> list[str]:
    """Return a line for each benchmark that was skipped and each node that was not used: no page has them."""
    reasons = [("skipped", found.get("skipped")), ("not used", found.get("left_out"))]
    return [f"{name}: {what}: {why}" for what, listed in reasons for name, why in as_plain_values(listed or {}).items()]


def _results(hosts: list[str], hostvars: Mapping[str, Any], documents: Mapping[str, Any]) -> dict[str, NodeResult]:
    """Return the results by host. Slurm's names of the nodes come from the inventory, as in slurm.conf."""
    found = {}
    for host in dict.fromkeys(hosts):
        if host not in hostvars:
            continue
        variables = hostvars[host]
        name = node_name(variables)
        if name in documents:
            inventory = {key: variables.get(key) for key in _OF_THE_INVENTORY}
            inventory["slurm_node_name"] = name
            found[host] = NodeResult(str(host), {"health": documents[name]}, as_plain_values(inventory))
    return found
