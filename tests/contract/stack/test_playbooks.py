# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks provision and teardown, as a user runs them, on a simulated subscription."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from .cloud import Azure, smallest

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


class Operator:
    """A folder with a stack.yml, and runs of the playbooks in it."""

    def __init__(self, folder: pathlib.Path, playbook: AnsiblePlaybook, azure: Azure) -> None:
        self.folder = folder
        self._playbook = playbook
        self._azure = azure
        self.describe()

    def describe(self, **more: Any) -> None:
        """Write stack.yml."""
        stack = smallest(storage={"containers": []}, shared_home={"source": "none"}, **more)
        azure = {
            "subscription_id": self._azure.simulator.subscription_id,
            "endpoint": self._azure.simulator.endpoint,
            "auth_source": "token",
            "token": self._azure.simulator.token,
        }
        content = {"hpcai_stack": stack, "hpcai_azure": azure, "provision_inventory": "inventory"}
        (self.folder / "stack.yml").write_text(yaml.safe_dump(content), encoding="utf-8")

    def controller(self, azure_id: str = "", **answer: Any) -> tuple[str, str]:
        """Make this machine the controller, with this answer of Slurm. Returns the options of the inventory.

        :param azure_id: its resource id, if it is not the stack's controller.
        """
        answer = {"changed": False, "answers": True, "jobs": [], "pending": [], **answer}
        python = self.folder / "python"
        python.write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(json.dumps(answer))}\n", encoding="utf-8")
        python.chmod(stat.S_IRWXU)
        here = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": str(python),
            # As Azure may return it.
            "azure_id": azure_id or self._azure.names().controller.replace("resourceGroups", "resourcegroups"),
        }
        hosts = {"all": {"children": {"hpcai_controller": {"hosts": {"ctl": here}}}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
        return "-i", "hosts.yml"

    def kill(self) -> None:
        """Kill ansible-playbook and its workers, which each have a session of their own."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink() == self.folder:
                    os.kill(int(process.name), signal.SIGKILL)

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook."""
        name = name if "." in name else f"hpcai.azure.{name}"
        return self._playbook(self.folder, name, "-e", "@stack.yml", *arguments)


@pytest.fixture
def operator(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook, azure: Azure) -> Operator:
    """An operator with a description of the smallest stack."""
    return Operator(tmp_path, ansible_playbook, azure)


def words(done: subprocess.CompletedProcess[str]) -> str:
    """The output on one line."""
    return " ".join((done.stdout + done.stderr).split())


def wait_for(done: Callable[[], bool]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """The number of changed tasks of a run that succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return sum(int(number) for number in re.findall(r"changed=(\d+)", done.stdout))


def test_from_an_empty_subscription_and_back(operator: Operator, azure: Azure) -> None:
    shown = operator.run("provision", "--check", "--diff")
    assert changed(shown) == 1
    assert "+virtualMachines/hpcai-controller: new Standard_D8s_v5" in shown.stdout
    assert azure.sent() == []

    assert changed(operator.run("provision")) == 1
    inventory = yaml.safe_load((operator.folder / "inventory/azure_vmss.yml").read_text(encoding="utf-8"))
    assert inventory["resource_groups"] == ["hpcai"]
    azure.simulator.clear()
    assert changed(operator.run("provision")) == 0
    assert azure.sent() == []

    inventory_options = operator.controller()
    listed = operator.run("teardown", *inventory_options, "--check")
    assert listed.returncode == 0, listed.stdout
    assert "virtualMachineScaleSets/compute" in listed.stdout
    unconfirmed = operator.run("teardown", *inventory_options)
    assert unconfirmed.returncode != 0
    assert "Nothing was deleted. The list above shows what would be." in words(unconfirmed)
    assert azure.sent() == []

    assert operator.run("teardown", *inventory_options, "-e", "teardown_confirm=true").returncode == 0
    assert azure.simulator.model.resource_groups == {}
    azure.simulator.clear()
    assert changed(operator.run("teardown", *inventory_options, "-e", "teardown_confirm=true")) == 0
    assert azure.sent() == []


def test_killed_run_is_repeated(operator: Operator, azure: Azure) -> None:
    azure.simulator.add_fault("PUT .*/virtualMachines/", "slow", delay_s=5, times=1, service="deployment")
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(operator.run, "provision")
        wait_for(lambda: any(path.endswith("/deployments/hpcai-hpcai") for _method, path in azure.sent()))
        operator.kill()
        assert first.result().returncode == -signal.SIGKILL
    assert not azure.exists(azure.names().controller)

    assert changed(operator.run("provision")) == 1
    assert azure.exists(azure.names().controller)
    azure.simulator.clear()
    assert changed(operator.run("provision")) == 0
    assert azure.sent() == []


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ((), "the inventory has no controller, so it is not known whether jobs run"),
        (("--limit", "localhost"), "This tears down a complete stack. Run it without --limit."),
    ],
)
def test_teardown_is_refused_without_knowing_about_jobs(
    operator: Operator, azure: Azure, arguments: tuple[str, ...], refusal: str
) -> None:
    azure.run(smallest(storage={"containers": []}, shared_home={"source": "none"}))
    azure.simulator.clear()
    done = operator.run("teardown", "-e", "teardown_confirm=true", *arguments)

    assert done.returncode != 0
    assert refusal in words(done)
    assert azure.sent() == []


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (
            {"jobs": ["4711 (alice, running)"], "pending": ["4712 (bob, pending)"]},
            "jobs run: 4711 (alice, running); and jobs are pending: 4712 (bob, pending). Wait until they have ended",
        ),
        (
            {"pending": [f"{number} (bob, pending)" for number in range(12)]},
            "jobs are pending: 0 (bob, pending), 1 (bob, pending), 2 (bob, pending), 3 (bob, pending), "
            "4 (bob, pending), 5 (bob, pending), 6 (bob, pending), 7 (bob, pending), 8 (bob, pending), "
            "9 (bob, pending) and 2 more. Wait until they have ended, or cancel them, or add "
            "-e teardown_running_jobs=true if jobs may be lost.",
        ),
        ({"answers": False}, "slurmctld on ctl does not answer, so it is not known whether jobs run"),
    ],
)
def test_teardown_is_refused_while_jobs_run_or_are_pending(
    operator: Operator, azure: Azure, answer: dict[str, Any], refusal: str
) -> None:
    azure.run(smallest(storage={"containers": []}, shared_home={"source": "none"}))
    azure.simulator.clear()
    options = (*operator.controller(**answer), "-e", "teardown_confirm=true")
    done = operator.run("teardown", *options)

    assert done.returncode != 0
    assert f"Nothing was deleted, because {refusal}" in words(done)
    assert azure.sent() == []
    if "jobs" in answer:
        assert operator.run("teardown", *options, "-e", "teardown_running_jobs=true").returncode == 0
        assert azure.simulator.model.resource_groups == {}


def test_teardown_does_not_ask_another_cluster_about_jobs(operator: Operator, azure: Azure) -> None:
    azure.run(smallest(storage={"containers": []}, shared_home={"source": "none"}))
    azure.simulator.clear()
    other = azure.names(smallest(name="other")).controller
    options = (*operator.controller(azure_id=other), "-e", "teardown_confirm=true")
    done = operator.run("teardown", *options)

    assert done.returncode != 0
    assert (
        "Nothing was deleted, because the controller of the inventory, ctl, is not that of the stack, so it is not "
        f"known whether jobs run: its azure_id is {other}, not {azure.names().controller}."
    ) in words(done)
    assert "skipped=1" in next(line for line in done.stdout.splitlines() if line.startswith("ctl "))
    assert azure.sent() == []


def test_preflight_stops_provision_before_the_first_write(operator: Operator, azure: Azure) -> None:
    policy = {"name": "no-nat", "type": "Microsoft.Network/natGateways"}
    azure.simulator.limits.change({"quotas": {"standardNDASv4_A100Family": 0}, "policies": [policy]})
    done = operator.run("provision")

    assert done.returncode != 0
    assert "Preflight of hpcai" in done.stdout
    assert "Cost: unknown, because there is no price file." in done.stdout
    assert "Preflight ends with fail of quota, policies." in words(done)
    assert azure.sent() == []
    azure.simulator.limits.change({"policies": []})
    # A scale set starts empty, so Azure makes it without quota.
    assert changed(operator.run("provision", "-e", "provision_preflight=false")) == 1


ROLE_ALONE = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: hpcai.azure.provision
"""


@pytest.mark.parametrize(
    ("playbook", "arguments"),
    [
        ("hpcai.azure.preflight", ()),
        ("hpcai.azure.provision", ()),
        ("hpcai.azure.provision", ("-e", "provision_preflight=false")),
        ("hpcai.azure.teardown", ()),
        ("alone.yml", ()),
    ],
)
@pytest.mark.daily(3)
def test_unknown_key_is_refused_before_the_first_request(
    operator: Operator, azure: Azure, playbook: str, arguments: tuple[str, ...]
) -> None:
    operator.describe(netwrk={})
    (operator.folder / "alone.yml").write_text(ROLE_ALONE, encoding="utf-8")
    done = operator.run(playbook, *arguments)

    assert done.returncode != 0
    assert "hpcai_stack.netwrk is unknown; the nearest known key is network." in words(done)
    assert azure.simulator.requests() == []


def test_info_lists_what_exists(operator: Operator, azure: Azure) -> None:
    azure.run(smallest(storage={"containers": []}, shared_home={"source": "none"}))
    stack = yaml.safe_load((operator.folder / "stack.yml").read_text(encoding="utf-8"))
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [
                {
                    "hpcai.azure.azure_stack_info": {**stack["hpcai_azure"], "stack": stack["hpcai_stack"]},
                    "register": "read",
                },
                {
                    "ansible.builtin.copy": {
                        "content": "{{ read | to_json }}",
                        "dest": str(operator.folder / "read.json"),
                    }
                },
            ],
        }
    ]
    (operator.folder / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
    done = operator._playbook(operator.folder, "play.yml")
    assert done.returncode == 0, done.stdout
    read = json.loads((operator.folder / "read.json").read_text(encoding="utf-8"))

    assert all(one["exists"] and one["recorded"] for one in read["resources"])
    assert read["deployment"] == "Succeeded"
    assert read["changed"] is False
    assert any(one["unique_id"] for one in read["resources"] if one["type"].endswith("/virtualMachines"))
