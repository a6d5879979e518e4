# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmrestd and its tokens: settings, unit, key and removal. tests/cluster/test_slurm_rest.py runs it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

import pytest
import yaml

from .conftest import DEBIAN_13, LOCAL, Evaluate

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
ROLE = REPOSITORY / "roles/slurm"
FACTS = {
    **DEBIAN_13,
    "architecture": "x86_64",
}
EXPRESSIONS = {
    "packages": "{{ __slurm_own_packages }}",
    "jwt": "{{ __slurm_conf_jwt }}",
    "daemons": "{{ __slurm_daemons.controller }}",
    "all daemons": "{{ __slurm_daemons.values() | flatten | map('regex_replace', '$', '.service') }}",
    "here": "{{ [__slurm_restd_here, __slurm_jwt_here] }}",
    "programs": "{{ __slurm_programs }}",
    "unit": f"{{{{ lookup('ansible.builtin.template', '{ROLE}/templates/slurmrestd.conf.j2') }}}}",
    "dbd": f"{{{{ lookup('ansible.builtin.template', '{ROLE}/templates/slurmdbd.conf.j2') }}}}",
}
KEY = "jwt_key=/etc/slurm/jwt_hs256.key"


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """The values by host: a controller with a port, slurmdbd's host, a login node, and one without the option."""
    inventory = {
        "all": {
            "vars": {**LOCAL, "slurm_restd": True, "slurm_accounting_host": "dbd", "slurm_restd_port": 6820},
            "children": {
                "hpcai_controller": {
                    "hosts": {
                        "ctl": {"azure_private_ipv4": "10.0.0.4"},
                        "off": {"slurm_restd": False, "slurm_accounting_host": "off"},
                        "socket": {"slurm_restd_port": 0},
                        "v6": {"slurm_controller_address": "fd00::4"},
                    }
                },
                "hpcai_login": {"hosts": {"login": {}, "dbd": {}}},
            },
        }
    }
    return evaluate("hpcai.azure.slurm", inventory, EXPRESSIONS, ansible_facts=FACTS)


def test_only_the_controller_runs_slurmrestd(by_host: dict[str, dict[str, Any]]) -> None:
    assert {host: values["here"] for host, values in by_host.items() if host in ("ctl", "dbd", "login", "off")} == {
        "ctl": [True, True],
        "dbd": [False, True],
        "login": [False, False],
        "off": [False, False],
    }
    assert by_host["ctl"]["daemons"] == ["slurmctld", "slurmrestd"]
    assert by_host["off"]["daemons"] == ["slurmctld"]


def test_site_yml_fails_if_one_of_slurms_daemons_has_failed(by_host: dict[str, dict[str, Any]]) -> None:
    plays = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text(encoding="utf-8"))
    (task,) = [
        task for play in plays for task in play.get("tasks", []) if task.get("register") == "__hpcai_failed_units"
    ]
    daemons = {daemon for values in by_host.values() for daemon in values["all daemons"]}
    assert daemons > {"slurmctld.service", "slurmrestd.service", "sackd.service", "slurmd.service", "slurmdbd.service"}
    assert daemons <= {*task["ansible.builtin.command"]["cmd"].split()}


def test_packages_are_installed_where_they_are_needed(by_host: dict[str, dict[str, Any]]) -> None:
    wanted = {"slurmrestd", "slurm-wlm-jwt-plugin"}
    assert {host: set(by_host[host]["packages"]) & wanted for host in ("ctl", "dbd", "login", "off")} == {
        "ctl": wanted,
        "dbd": {"slurm-wlm-jwt-plugin"},
        "login": set(),
        "off": set(),
    }
    assert by_host["ctl"]["programs"] == ["controller", "restd"]


def test_slurmctld_and_slurmdbd_use_the_same_key(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["ctl"]["jwt"] == {"AuthAltTypes": ["auth/jwt"], "AuthAltParameters": [KEY]}
    assert f"AuthAltTypes=auth/jwt\nAuthAltParameters={KEY}\n" in by_host["dbd"]["dbd"]
    assert by_host["off"]["jwt"] == {}
    assert "AuthAlt" not in by_host["off"]["dbd"]


@pytest.mark.parametrize(
    ("host", "listens"),
    [
        ("ctl", "unix:/run/slurmrestd/slurmrestd.socket 10.0.0.4:6820"),
        ("socket", "unix:/run/slurmrestd/slurmrestd.socket"),
        ("v6", "unix:/run/slurmrestd/slurmrestd.socket [fd00::4]:6820"),
    ],
)
def test_slurmrestd_accepts_only_tokens_where_it_listens(
    by_host: dict[str, dict[str, Any]], host: str, listens: str
) -> None:
    lines = by_host[host]["unit"].splitlines()
    assert f"ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt {listens}" in lines
    # An empty line replaces the packaged commands and options, which run it as root at all addresses.
    assert lines.index("ExecStart=") < lines.index(f"ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt {listens}")
    # From 24.05 on upstream's unit has "Environment=SLURMRESTD_LISTEN=:6820", and slurmrestd listens there too.
    assert lines.index("Environment=") < lines.index("Environment=SLURM_JWT=daemon")
    assert "UnsetEnvironment=SLURMRESTD_LISTEN SLURMRESTD_OPTIONS" in lines
    assert {"User=slurmrestd", "EnvironmentFile=", "Environment=SLURM_JWT=daemon", "NoNewPrivileges=true"} <= {*lines}


@pytest.mark.parametrize(
    ("address", "accepted"),
    [
        ("10.0.0.4", True),
        ("172.16.0.4", True),
        ("172.31.0.4", True),
        ("192.168.1.4", True),
        ("fd00::4", True),
        ("172.32.0.4", False),
        ("20.1.2.3", False),
        ("0.0.0.0", False),
        ("100.10.0.4", False),
        ("2603:1020::4", False),
        ("ctl.example.org", False),
    ],
)
def test_only_a_private_address_is_accepted(address: str, accepted: bool) -> None:
    refuse = yaml.safe_load((ROLE / "tasks/restd.yml").read_text(encoding="utf-8"))[0]
    pattern = re.search(r"match\('(.+)'\)", refuse["ansible.builtin.assert"]["that"])
    assert pattern
    assert bool(re.match(pattern[1], address)) is accepted


def test_the_key_is_neither_logged_nor_compared_and_only_slurm_reads_it() -> None:
    tasks = yaml.safe_load((ROLE / "tasks/jwt.yml").read_text(encoding="utf-8"))
    carrying = [task for task in tasks if "jwt" in str(task) and "ansible.builtin.file" not in task]
    assert len(carrying) == 3
    assert all(task["no_log"] is True for task in carrying)
    copies = [task for task in carrying if "ansible.builtin.copy" in task]
    assert [task["diff"] for task in copies] == [False, False]
    for task in copies:
        assert {key: task["ansible.builtin.copy"][key] for key in ("owner", "mode")} == {
            "owner": "slurm",
            "mode": "0600",
        }
    # An existing key stays, so that tokens remain valid.
    assert copies[0]["ansible.builtin.copy"]["force"] is False


def test_the_key_exists_before_the_daemons_that_read_it_start() -> None:
    names = [task["name"] for task in yaml.safe_load((ROLE / "tasks/configure.yml").read_text(encoding="utf-8"))]
    order = ["Prepare the key of Slurm's tokens", "Run slurmdbd", "Run the controller", "Run slurmrestd"]
    assert [name for name in names if name in order] == order


def test_no_login_or_compute_node_gets_the_key() -> None:
    login = yaml.safe_load((ROLE / "vars/main/login.yml").read_text(encoding="utf-8"))
    assert not [name for name in login["__slurm_login_files"] if "key" in name]


SYSTEMCTL = """#!/bin/sh
echo "$*" >> '{log}'
if [ "$1" = show ]; then
    printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled\\nNeedDaemonReload=no\\n'
fi
"""


class Removal:
    """Runs the tasks that remove slurmrestd on this machine, with a stand-in for systemctl."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.log = folder / "systemctl.log"
        self.drop_in = folder / "slurmrestd.service.d/hpcai.conf"
        self.key = folder / "jwt_hs256.key"
        self.drop_in.parent.mkdir()
        for path in (self.drop_in, self.key):
            path.write_text("made by the role\n", encoding="utf-8")
        program = folder / "bin/systemctl"
        program.parent.mkdir()
        program.write_text(SYSTEMCTL.format(log=self.log), encoding="utf-8")
        program.chmod(0o755)

    def run(self, *arguments: str, **variables: Any) -> str:
        """Run the tasks; returns what was asked of systemctl, without its questions."""
        play = self.folder / "play.yml"
        role = {"name": "hpcai.azure.slurm", "tasks_from": "restd_absent"}
        task = {"name": "Remove", "ansible.builtin.include_role": role}
        play.write_text(
            yaml.safe_dump([{"name": "Remove", "hosts": "localhost", "gather_facts": False, "tasks": [task]}]),
            encoding="utf-8",
        )
        given = {
            **LOCAL,
            "__slurm_restd_drop_in": str(self.drop_in),
            "__slurm_jwt_key_file": str(self.key),
            **variables,
        }
        self.log.write_text("", encoding="utf-8")
        run = subprocess.run(
            ["ansible-playbook", "-i", "localhost,", str(play), "-e", json.dumps(given), *arguments],
            env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        asked = self.log.read_text(encoding="utf-8").splitlines()
        return " ".join(line for line in asked if not line.startswith(("show", "is-")))


@pytest.fixture
def removal(tmp_path: pathlib.Path) -> Removal:
    """A machine that runs slurmrestd by this role."""
    return Removal(tmp_path)


def test_without_the_option_slurmrestd_stops_and_its_key_and_drop_in_are_removed(removal: Removal) -> None:
    assert removal.run("--check") == ""
    assert removal.drop_in.exists()
    assert removal.key.exists()
    assert removal.run() == "disable slurmrestd stop slurmrestd daemon-reload"
    assert not removal.drop_in.exists()
    assert not removal.key.exists()
    assert removal.run() == ""


def test_a_slurmrestd_and_a_key_of_the_site_stay(removal: Removal) -> None:
    removal.drop_in.unlink()
    assert removal.run(slurm_conf={"AuthAltParameters": f"jwt_key={removal.key}"}) == ""
    assert removal.key.exists()


@pytest.mark.parametrize(
    ("given", "is_removed"),
    [
        ({}, True),
        ({"slurm_conf": {"AuthAltParameters": "jwt_key=/etc/slurm/jwt_hs256.key"}}, False),
        ({"slurm_dbd_conf": {"AuthAltParameters": "jwt_key=/etc/slurm/jwt_hs256.key"}}, False),
    ],
)
def test_uninstall_leaves_a_key_of_the_site(evaluate: Evaluate, given: dict[str, Any], is_removed: bool) -> None:
    inventory = {"all": {"vars": LOCAL, "children": {"hpcai_controller": {"hosts": {"ctl": given}}}}}
    expressions = {"removed": "{{ __slurm_removed }}", "of_site": "{{ __slurm_jwt_key_of_site }}"}
    (found,) = evaluate("hpcai.azure.slurm", inventory, expressions, ansible_facts=FACTS).values()
    assert found["of_site"] is not is_removed
    assert ("/etc/slurm/jwt_hs256.key" in found["removed"]) is is_removed


def test_both_a_run_without_the_option_and_uninstall_remove_slurmrestd() -> None:
    configure = yaml.safe_load((ROLE / "tasks/configure.yml").read_text(encoding="utf-8"))
    files = [str(task.get("ansible.builtin.include_tasks", "")) for task in configure]
    # slurmctld and slurmdbd still need the key until they have restarted without it.
    assert files.index("restd_absent.yml") > max(files.index("controller.yml"), files.index("accounting.yml"))
    assert configure[files.index("restd_absent.yml")]["when"].startswith("not slurm_restd | bool and ")
    uninstall = yaml.safe_load((ROLE / "tasks/uninstall.yml").read_text(encoding="utf-8"))
    assert [task for task in uninstall if task.get("ansible.builtin.import_tasks") == "restd_absent.yml"]
