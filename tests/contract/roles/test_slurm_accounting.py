# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role slurm for accounting. No task runs."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from .conftest import LOCAL, Evaluate

TEMPLATES = pathlib.Path(__file__).resolve().parents[3] / "roles/slurm/templates"
# The facts that these variables use. A host that is neither controller, login nor compute node has no others.
FACTS = {"hostname": "ctl", "os_family": "Debian", "distribution": "Debian", "distribution_major_version": "12"}
EXPRESSIONS = {
    "functions": "{{ slurm_functions }}",
    "conf": "{{ __slurm_conf_accounting }}",
    "datadir": "{{ __slurm_database_datadir }}",
    "state": "{{ __slurm_state }}",
    "packages": "{{ __slurm_database_packages }}",
    "units": "{{ __slurm_accounting_units }}",
    "dbd": f"{{{{ lookup('ansible.builtin.template', '{TEMPLATES}/slurmdbd.conf.j2') }}}}",
}
HOSTS: dict[str, dict[str, Any]] = {
    "ctl": {},
    "elsewhere": {"slurm_accounting_host": "login"},
    "external": {"slurm_accounting_host": "dbd.example.org", "slurm_accounts": {"vision": {}}},
    "without": {"slurm_accounting": False},
    "disk": {
        "slurm_state_path": "/data/slurm",
        "slurm_accounting_host": "disk",
        "slurm_dbd_conf": {"DebugLevel": "verbose"},
    },
    "own_server": {"slurm_accounting_host": "own_server", "slurm_dbd_conf": {"StorageHost": "db.example.org"}},
}


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """The values of the variables by host."""
    inventory = {
        "all": {
            "vars": LOCAL,
            "children": {
                "hpcai_controller": {
                    "hosts": {name: {"azure_private_ipv4": "10.0.0.4", **HOSTS[name]} for name in HOSTS}
                },
                "hpcai_login": {"hosts": {"login": {"azure_private_ipv4": "10.0.0.9"}}},
            },
        }
    }
    return evaluate("hpcai.azure.slurm", inventory, EXPRESSIONS, "hpcai_controller", ansible_facts=FACTS)


def test_accounting_runs_on_the_controller_by_default(by_host: dict[str, dict[str, Any]]) -> None:
    ctl = by_host["ctl"]
    assert ctl["functions"] == ["controller", "accounting"]
    assert ctl["conf"]["AccountingStorageHost"] == "10.0.0.4"
    # No accounts are configured, so users without an account may run jobs.
    assert ctl["conf"]["AccountingStorageEnforce"] == []
    assert (ctl["state"], ctl["datadir"]) == ("/var/lib/slurm/slurmctld", "")
    assert ctl["packages"] == ["mariadb-server"]
    assert ctl["units"] == ["slurmdbd", "mariadb", "slurmctld"]
    assert "StorageHost=localhost\nStorageUser=slurm\nStorageLoc=slurm_acct_db\n" in ctl["dbd"]
    assert "DbdHost=ctl\nDbdAddr=10.0.0.4\n" in ctl["dbd"]
    assert "StoragePass" not in ctl["dbd"]


def test_accounting_can_run_on_another_or_an_external_host(by_host: dict[str, dict[str, Any]]) -> None:
    for name, address in (("elsewhere", "10.0.0.9"), ("external", "dbd.example.org")):
        assert by_host[name]["functions"] == ["controller"]
        assert by_host[name]["conf"]["AccountingStorageHost"] == address
        assert (by_host[name]["packages"], by_host[name]["units"]) == ([], ["slurmctld"])


def test_limits_are_enforced_if_there_are_accounts(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["external"]["conf"]["AccountingStorageEnforce"] == ["associations", "limits", "qos", "safe"]


def test_without_accounting_nothing_is_installed_or_configured(by_host: dict[str, dict[str, Any]]) -> None:
    without = by_host["without"]
    assert (without["functions"], without["conf"]) == (["controller"], {})
    assert (without["packages"], without["units"]) == ([], ["slurmctld"])


def test_queue_and_database_can_be_on_another_disk(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["disk"]["state"] == "/data/slurm/slurmctld"
    assert by_host["disk"]["datadir"] == "/data/slurm/database"
    assert "DebugLevel=verbose\n" in by_host["disk"]["dbd"]


def test_the_timer_of_the_dumps_runs_only_while_there_is_a_folder(evaluate: Evaluate) -> None:
    tasks = yaml.safe_load((TEMPLATES.parent / "tasks/state.yml").read_text(encoding="utf-8"))
    of_timer = {
        task.get("ansible.builtin.include_tasks", "stopped"): task["when"]
        for task in tasks
        if "dump_timer.yml" in str(task) or task.get("hpcai.azure.daemon", {}).get("name") == "hpcai-slurm-dump.timer"
    }
    hosts = {"with": {**LOCAL, "slurm_dump_path": "/backup"}, "without": LOCAL}
    expressions = {name: f"{{{{ {condition} }}}}" for name, condition in of_timer.items()}
    found = evaluate("hpcai.azure.slurm", {"all": {"hosts": hosts}}, expressions)
    assert found["with"] == {"dump_timer.yml": True, "stopped": False}
    assert found["without"] == {"dump_timer.yml": False, "stopped": True}


def test_an_external_database_server_is_not_installed(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["own_server"]["packages"] == []
    assert by_host["own_server"]["units"] == ["slurmdbd", "slurmctld"]
    assert "StorageHost=db.example.org\n" in by_host["own_server"]["dbd"]
