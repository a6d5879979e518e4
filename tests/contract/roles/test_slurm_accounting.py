# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role slurm makes of its variables about accounting. None of its tasks runs."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from .conftest import LOCAL, Show

TEMPLATES = pathlib.Path(__file__).resolve().parents[3] / "roles/slurm/templates"
# The facts that they look at; a host that is none of the controller, login and compute nodes has no others.
FACTS = {"hostname": "ctl", "os_family": "Debian", "distribution": "Debian", "distribution_major_version": "12"}
ASKED = {
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
def made(show: Show) -> dict[str, dict[str, Any]]:
    """What the variables are, by host."""
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
    return show("hpcai.azure.slurm", inventory, ASKED, "hpcai_controller", ansible_facts=FACTS)


def test_the_controller_keeps_the_accounting_by_default(made: dict[str, dict[str, Any]]) -> None:
    ctl = made["ctl"]
    assert ctl["functions"] == ["controller", "accounting"]
    assert ctl["conf"]["AccountingStorageHost"] == "10.0.0.4"
    # Users without an account may run jobs, as nobody named any account.
    assert ctl["conf"]["AccountingStorageEnforce"] == []
    assert (ctl["state"], ctl["datadir"]) == ("/var/lib/slurm/slurmctld", "")
    assert ctl["packages"] == ["mariadb-server"]
    assert ctl["units"] == ["slurmdbd", "mariadb", "slurmctld"]
    assert "StorageHost=localhost\nStorageUser=slurm\nStorageLoc=slurm_acct_db\n" in ctl["dbd"]
    assert "DbdHost=ctl\nDbdAddr=10.0.0.4\n" in ctl["dbd"]
    assert "StoragePass" not in ctl["dbd"]


def test_another_host_or_one_that_is_not_ours_may_keep_it(made: dict[str, dict[str, Any]]) -> None:
    for name, address in (("elsewhere", "10.0.0.9"), ("external", "dbd.example.org")):
        assert made[name]["functions"] == ["controller"]
        assert made[name]["conf"]["AccountingStorageHost"] == address
        assert (made[name]["packages"], made[name]["units"]) == ([], ["slurmctld"])


def test_limits_hold_as_soon_as_there_are_accounts(made: dict[str, dict[str, Any]]) -> None:
    assert made["external"]["conf"]["AccountingStorageEnforce"] == ["associations", "limits", "qos", "safe"]


def test_without_accounting_nothing_of_it_is_there(made: dict[str, dict[str, Any]]) -> None:
    without = made["without"]
    assert (without["functions"], without["conf"]) == (["controller"], {})
    assert (without["packages"], without["units"]) == ([], ["slurmctld"])


def test_queue_and_database_lie_on_the_disk_of_the_users_choice(made: dict[str, dict[str, Any]]) -> None:
    assert made["disk"]["state"] == "/data/slurm/slurmctld"
    assert made["disk"]["datadir"] == "/data/slurm/database"
    assert "DebugLevel=verbose\n" in made["disk"]["dbd"]


def test_a_database_server_of_the_users_own_is_not_run_here(made: dict[str, dict[str, Any]]) -> None:
    assert made["own_server"]["packages"] == []
    assert made["own_server"]["units"] == ["slurmdbd", "slurmctld"]
    assert "StorageHost=db.example.org\n" in made["own_server"]["dbd"]
