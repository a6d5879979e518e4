# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""roll.yml with a simulated scale set, and commands that replace slurmctld. The nodes do not answer ssh.

tests/cluster/test_roll.py runs it on nodes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.inventory.clusters import CLUSTER
from contract.inventory.reading import Finished, Source, ansible
from contract.inventory.replacing import Controller, output_of, write_requests
from simulator.testing import running

from .azure import OLD_IMAGE, add_gallery, version_id


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    """A cluster with three nodes in a Uniform set, two in a Flexible one, and a gallery with a new image."""
    compute, flexible = CLUSTER["scale_sets"]
    exact = {"version": "22.04.2025091101"}
    with running({**CLUSTER, "scale_sets": [{**compute, "image": exact}, flexible]}) as simulator:
        add_gallery(simulator, "1.0.0")
        (tmp_path / "source").mkdir()
        yield Source(tmp_path / "source" / "azure_vmss.yml", simulator)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """A controller whose nodes are idle, and without jobs."""
    return Controller(tmp_path / "bin")


def roll(source: Source, controller: Controller, *flags: str, **variables: Any) -> Finished:
    """Run the playbook."""
    source.write(include_vms="tagged", resource_groups=["hpcai-sim"])
    folder = source.path.parent
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "python3"}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"ctl": here}}}), encoding="utf-8")
    known = {"hpcai_known_hosts": str(folder / "known_hosts")}
    options = {"image": version_id(source.simulator), "hpcai_roll_boot": 1, "hpcai_key_source": "key_vault", **known}
    environment = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_EXECUTABLE": str(controller.folder / "ssh"),
        "PATH": f"{controller.folder}:{os.environ['PATH']}",
    }
    words = ["-i", source.path, "-i", "hosts.yml", "-e", json.dumps({**options, **variables}), *flags]
    return ansible("ansible-playbook", *words, "hpcai.azure.roll", cwd=folder, env=environment)


def changes(source: Source) -> list[tuple[str, str]]:
    """Method and action of all requests that change something. Reading a console's log is a POST."""
    return [request for request in write_requests(source) if request[1] != "retrievebootdiagnosticsdata"]


def test_check_mode_lists_the_nodes_and_sends_nothing(source: Source, controller: Controller) -> None:
    done = roll(source, controller, "--check", "--diff")

    assert done.returncode == 0, output_of(done)
    assert "Would get the image: compute-0, compute-3, compute-17." in output_of(done)
    assert f"compute: {version_id(source.simulator)}, before {OLD_IMAGE}; 0 of 3 instances have it" in output_of(done)
    assert changes(source) == []
    assert controller.updates == []


def test_a_first_node_that_does_not_come_back_stops_the_run(source: Source, controller: Controller) -> None:
    known = source.path.parent / "known_hosts"
    instance = source.simulator.instance("compute_0")
    known.write_text(f"{instance.vm_id} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOLD\n", encoding="utf-8")

    done = roll(source, controller, hpcai_roll_at_most=2)

    assert done.returncode != 0
    output = output_of(done)
    assert "Stopped: compute-0 has the image, but its slurmd did not answer within 1 s." in output
    assert f"To go back, run it -e image={OLD_IMAGE}." in output
    assert changes(source) == [("PATCH", "compute"), ("POST", "manualupgrade")]
    drains = [update.split(" Reason=")[0] for update in controller.updates]
    assert drains == ["update NodeName=compute-0 State=DRAIN"] * 2
    assert controller.updates[1].endswith("Reason=hpcai: roll: new image node/1.0.0, reimaged, slurmd was of unknown")
    (key,) = instance.host_keys
    assert known.read_text(encoding="utf-8") == f"{instance.vm_id} {key.removesuffix(' root@localhost')}\n"


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("flags", "variables", "words"),
    [
        (["--limit", "ctl"], {"hpcai_key_source": "push", "image": "", "hpcai_roll_at_most": 0}, "without --limit"),
        ([], {"hpcai_key_source": "push"}, "Set hpcai_key_source to key_vault"),
        ([], {"image": ""}, "Name the image"),
        ([], {"hpcai_roll_at_most": 0}, "hpcai_roll_at_most must be a number of nodes, 1 or more"),
        (
            [],
            {"hpcai_roll_sets": "gpu,compute"},
            "hpcai_roll_sets: gpu: no compute node is in a scale set of this name",
        ),
        ([], {"image": "latest"}, "give an exact version"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_drained(
    source: Source, controller: Controller, flags: list[str], variables: dict[str, Any], words: str
) -> None:
    done = roll(source, controller, *flags, **variables)

    assert done.returncode != 0
    assert words in output_of(done)
    assert changes(source) == []
    assert controller.updates == []
