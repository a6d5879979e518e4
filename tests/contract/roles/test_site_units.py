# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which failed units make site.yml report a node as not configured. No task runs."""

from __future__ import annotations

import pathlib

import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import units

from .conftest import LOCAL, Evaluate

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def test_units_that_fail_for_another_reason_than_the_node_do_not_count(evaluate: Evaluate) -> None:
    plays = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text(encoding="utf-8"))
    (task,) = [task for play in plays for task in play.get("tasks", []) if task["name"] == "Fail if a unit has failed"]
    ours = {
        *units.UNITS,
        *(path.name.removesuffix(".j2") for path in REPOSITORY.glob("roles/*/templates/*.service.j2")),
    }
    ignored = {
        "hpcai-checkpoint-verify.service",
        "hpcai-diag.service",
        "hpcai-goodput.service",
        "hpcai-health-report.service",
        "hpcai-hook-report.service",
    }
    assert ignored <= ours
    failed = {name for name in ours if name.endswith(".service")} | {"slurmd.service"}
    lines = [f"{name} loaded failed failed A title" for name in sorted(failed)]
    found = evaluate(
        "hpcai.azure.cluster",
        {"all": {"hosts": {"gpu1": LOCAL}}},
        {"failed": "{{ __hpcai_failed }}"},
        **{"__hpcai_failed_units": {"stdout_lines": lines}, **task["vars"]},
    )
    assert set(found["gpu1"]["failed"]) == failed - ignored
