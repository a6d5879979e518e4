# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An upgrade of Slurm: which daemons it stops on which machine, and which nodes it drains. No task runs."""

from __future__ import annotations

import pathlib
from typing import Any

import yaml

from .conftest import DEBIAN_13, LOCAL, Evaluate

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
TASKS = REPOSITORY / "roles/slurm/tasks"
FACTS = {
    **DEBIAN_13,
    "ansible_local": {"hpcai_slurm": {"packages": ["slurm-client"], "version": "23.11.4"}},
}
INVENTORY = {
    "all": {
        "vars": {**LOCAL, "slurm_version": "24.11"},
        "children": {
            "hpcai_controller": {"hosts": {"ctl": None}},
            "hpcai_login": {"hosts": {"ctl": None, "login": None}},
            "hpcai_compute": {"hosts": {"gpu1": None, "gpu2": {"slurm_node_name": "gpu-2"}, "gpu3": None}},
        },
    }
}


def task(path: pathlib.Path, name: str) -> dict[str, Any]:
    """A task of a file, also in a play."""

    def tasks(content: Any) -> Any:
        for item in content:
            yield item
            yield from tasks(item.get("tasks", []))

    return next(item for item in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))) if item["name"] == name)


def evaluated(evaluate: Evaluate, expression: str, **variables: Any) -> dict[str, Any]:
    """The value of an expression by host."""
    answers = evaluate("hpcai.azure.slurm", INVENTORY, {"value": expression}, ansible_facts=FACTS, **variables)
    return {host: values["value"] for host, values in answers.items()}


def test_a_separate_host_of_slurmdbd_is_upgraded_before_the_controller(evaluate: Evaluate) -> None:
    alone = task(TASKS / "upgrade_look.yml", "Find out whether slurmdbd has another host than the controller")
    condition = f"{{{{ {alone['when']} }}}}"
    assert not any(evaluated(evaluate, condition).values())
    found = evaluated(evaluate, condition, slurm_accounting_host="login")
    assert [host for host, is_alone in found.items() if is_alone] == ["login"]

    plays = [play["hosts"] for play in yaml.safe_load((REPOSITORY / "playbooks/upgrade_slurm.yml").read_text("utf-8"))]
    assert plays[2:4] == [alone["ansible.builtin.group_by"]["key"], "hpcai_controller"]

    stopped = task(TASKS / "upgrade_controller.yml", "Stop slurmrestd, slurmctld, then slurmdbd")["loop"]
    assert evaluated(evaluate, stopped)["ctl"] == ["slurmctld", "slurmdbd"]
    elsewhere = evaluated(evaluate, stopped, slurm_accounting_host="login")
    assert (elsewhere["ctl"], elsewhere["login"]) == (["slurmctld"], ["slurmdbd"])


def test_an_upgrade_by_hand_stops_the_old_daemons(evaluate: Evaluate) -> None:
    stop = task(TASKS / "install.yml", "Stop the daemons of the version that is replaced")
    found = evaluated(evaluate, stop["loop"])
    # sackd does not run on a controller.
    assert found["ctl"] == ["slurmctld", "slurmdbd"]
    assert (found["login"], found["gpu1"]) == (["sackd"], ["slurmd"])
    condition = f"{{{{ {stop['when']} }}}}"
    assert not any(evaluated(evaluate, condition).values())
    assert all(evaluated(evaluate, condition, slurm_upgrade="true").values())


def test_the_nodes_to_upgrade_are_drained_by_their_names_in_slurm(evaluate: Evaluate) -> None:
    drain = task(REPOSITORY / "playbooks/upgrade_slurm.yml", "Drain the batch and wait for its jobs")["vars"]
    # The nodes of this inventory are no instances of Azure. A host of another batch stays.
    upgrade = {"pending": ["gpu2", "gpu3", "other"]}
    found = evaluated(evaluate, "{{ __slurm_drain }}", hpcai_slurm_upgrade=upgrade, **drain)
    assert found["ctl"] == [{"node": "gpu-2", "host": "gpu2"}, {"node": "gpu3", "host": "gpu3"}]
