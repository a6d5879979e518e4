# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""roll.yml with a simulated scale set, and commands that replace slurmctld. The nodes do not answer ssh.

tests/cluster/test_roll.py runs it on nodes.
"""

from __future__ import annotations

import json
import os
import stat
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

NEWER = "99999999-2222-4333-8444-555555555555"
"""The vmId of a machine that has the new image."""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    """A cluster with three nodes in a Uniform set, two in a Flexible one, and a gallery with a new image.

    The set gpu is empty, and has an image of the marketplace.
    """
    compute, flexible = CLUSTER["scale_sets"]
    sets = [{**compute, "image": {"id": OLD_IMAGE}}, flexible, {"name": "gpu", "capacity": 0}]
    with running({**CLUSTER, "scale_sets": sets}) as simulator:
        add_gallery(simulator, "1.0.0")
        (tmp_path / "source").mkdir()
        yield Source(tmp_path / "source" / "azure_vmss.yml", simulator)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """A controller whose nodes are idle, and without jobs."""
    return Controller(tmp_path / "bin")


# A marked node's slurmd starts again at once. Azure still has to report that the instance has the image.
SCONTROL = r"""#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
    *"show nodes"*) cat nodes ;;
    update*)
        echo "$*" >> updates
        started=2026-11-22T16:40:00
        case "$*" in *reimaged*|*RESUME*) started=2026-11-26T23:00:00 ;; esac
        new="State=IDLE SlurmdStartTime=$started"
        [ "$3" = State=DRAIN ] && new="State=IDLE+DRAIN SlurmdStartTime=$started $4 [root@2026-11-22T16:40:00]"
        sed -i "s|^$2 .*|$2 $new|" nodes
        ;;
    *) exit 1 ;;
esac
"""


def let_slurmd_start_again(controller: Controller) -> None:
    """Let a node come back when it was marked."""
    (controller.folder / "scontrol").write_text(SCONTROL, encoding="utf-8")


def first_node(source: Source, controller: Controller, deep: str, boot: str) -> dict[str, Any]:
    """Let compute-0 answer Ansible, with these verdicts of the two tiers of its health checks."""
    # One answer for all modules: ping, wait_for and the health checks. The text of a module contains its options.
    for tier, verdict in (("deep", deep), ("boot", boot)):
        (controller.folder / f"{tier}.json").write_text(health(source, tier, verdict), encoding="utf-8")
    python = controller.folder / "node"
    # Newer releases of ansible-core also pass this file to an asynchronous module, so it must not contain the option.
    python.write_text(
        f"""#!/bin/sh
if grep -q '"tier": "boo[t]"' "$@"; then cat {controller.folder}/boot.json; else cat {controller.folder}/deep.json; fi
""",
        encoding="utf-8",
    )
    python.chmod(stat.S_IRWXU)
    return {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": str(python)}


def health(source: Source, tier: str, verdict: str) -> str:
    """The result of the health checks of a tier on compute-0."""
    check = {
        "name": "gpu_count",
        "verdict": verdict,
        "summary": "8 of 8 GPUs",
        "action": "replace",
        "fault": "NHC2009",
        "findings": [],
        "readings": [],
    }
    result = {
        "schema": 1,
        "command": "health",
        "tier": tier,
        "time": "2026-11-26T23:00:00Z",
        "verdict": verdict,
        "node": {"name": "compute-0", "vm_id": source.simulator.instance("compute_0").vm_id, "host": "GGBB1"},
        "checks": [check],
    }
    return json.dumps({"changed": False, "ping": "pong", "health": result})


def roll(
    source: Source,
    controller: Controller,
    *flags: str,
    node: dict[str, Any] | None = None,
    **variables: Any,
) -> Finished:
    """Run the playbook.

    :param node: how compute-0 is reached; by default it does not answer.
    """
    source.write(include_vms="tagged", resource_groups=["hpcai-sim"])
    folder = source.path.parent
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "python3"}
    hosts = {"ctl": here, **({"compute000000": node} if node else {})}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    known = {"hpcai_known_hosts": str(folder / "known_hosts")}
    options = {"image": version_id(source.simulator), "hpcai_roll_boot": 1, "hpcai_key_source": "key_vault", **known}
    environment = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_EXECUTABLE": str(controller.folder / "ssh"),
        "PATH": f"{controller.folder}:{os.environ['PATH']}",
    }
    words: list[str | Path] = ["-i", source.path, "-i", "hosts.yml", "-e", json.dumps({**options, **variables}), *flags]
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
    assert "These nodes have another image: compute-3, compute-17." in output
    assert f"To go back, run it -e image={OLD_IMAGE}." in output
    assert changes(source) == [("PATCH", "compute"), ("POST", "manualupgrade")]
    drains = [update.split(" Reason=")[0] for update in controller.updates]
    assert drains == ["update NodeName=compute-0 State=DRAIN"] * 2
    assert controller.updates[1].endswith("Reason=hpcai: roll: new image node/1.0.0, reimaged, slurmd was of unknown")
    (key,) = instance.host_keys
    lines = [line for line in known.read_text(encoding="utf-8").splitlines() if line.startswith(instance.vm_id)]
    assert lines == [f"{instance.vm_id} {key.removesuffix(' root@localhost')}"]


def test_every_node_gets_the_image_after_the_first_has_passed_its_checks(
    source: Source, controller: Controller
) -> None:
    let_slurmd_start_again(controller)
    # What could not be measured does not stop the run.
    node = first_node(source, controller, deep="pass", boot="unknown")

    done = roll(source, controller, node=node, hpcai_roll_boot=60)

    assert done.returncode == 0, output_of(done)
    assert changes(source) == [("PATCH", "compute"), *[("POST", "manualupgrade")] * 3]
    images = {item.image.id for item in source.simulator.scale_set("compute").members.values()}
    assert images == {version_id(source.simulator)}
    assert "Resumed: compute-0, compute-3, compute-17." in output_of(done)
    states = (controller.folder / "nodes").read_text(encoding="utf-8")
    assert states.count("State=IDLE SlurmdStartTime=2026-11-26T23:00:00") == 3
    assert "PLAY [Check the first nodes]" in done.stdout


@pytest.mark.daily(1)
@pytest.mark.parametrize("verdicts", [{"deep": "pass", "boot": "fail"}, {"deep": "fail", "boot": "pass"}])
def test_a_first_node_whose_checks_fail_stops_the_run(
    source: Source, controller: Controller, verdicts: dict[str, str]
) -> None:
    let_slurmd_start_again(controller)
    node = first_node(source, controller, **verdicts)

    done = roll(source, controller, node=node, hpcai_roll_boot=60)

    assert done.returncode != 0
    assert "Stopped: the checks fail on compute000000, or the node does not answer. It stays drained." in output_of(
        done
    )
    assert changes(source) == [("PATCH", "compute"), ("POST", "manualupgrade")]
    assert "State=RESUME" not in "".join(controller.updates)


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


def test_an_elastic_set_that_cannot_have_the_image_is_refused_before_anything_is_drained(
    source: Source, controller: Controller
) -> None:
    elastic = {"id": source.simulator.scale_set("gpu").id, "vm_size": "Standard_ND96asr_v4", "max": 4}

    done = roll(source, controller, hpcai_elastic={"gpu": elastic})

    assert done.returncode != 0
    assert "Azure cannot change a scale set between a marketplace image and a gallery" in output_of(done)
    assert changes(source) == []
    assert controller.updates == []


def roll_elastic(
    source: Source, controller: Controller, *flags: str, canary: int = 0, settled: int = 0
) -> tuple[Finished, list[str]]:
    """Roll an elastic set of three machines; return what hpcnode was asked for too.

    :param canary: how the canary ends.
    :param settled: how waiting for the machines that come instead of deleted ones ends.
    """
    members = source.simulator.scale_set("compute").members.values()
    slots = [
        {"slot": f"compute-{position}", "vm_id": item.vm_id, "instance": item.instance_id}
        for position, item in enumerate(members)
    ]
    # Azure has given an instance id again, to a machine that has the image.
    newer = {"slot": "compute-9", "vm_id": NEWER, "instance": slots[0]["instance"]}
    status = {"schema": 1, "command": "elastic", "status": 0, "runs": True, "time": 1779000000}
    status["sets"] = {"compute": {"slots": [*slots, newer]}}
    (controller.folder / "elastic").write_text(json.dumps(status), encoding="utf-8")
    (controller.folder / "canary").write_text("compute-3 has the image\n", encoding="utf-8")
    (controller.folder / "canary_rc").write_text(str(canary), encoding="utf-8")
    (controller.folder / "settled").write_text("compute-0: it did not join within 1200 s\n", encoding="utf-8")
    (controller.folder / "settled_rc").write_text(str(settled), encoding="utf-8")
    one = {"id": source.simulator.scale_set("compute").id, "vm_size": "Standard_ND96asr_v4", "max": 4}
    options: dict[str, Any] = {"hpcai_roll_sets": "compute", "hpcai_roll_at_most": 2}

    done = roll(source, controller, *flags, hpcai_elastic={"compute": one}, **options)

    asked = controller.folder / "retired"
    return done, asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []


def test_machines_of_an_elastic_set_go_a_few_at_a_time_after_a_canary(source: Source, controller: Controller) -> None:
    done, asked = roll_elastic(source, controller)

    assert done.returncode == 0, output_of(done)
    assert changes(source) == [("PATCH", "compute")]
    assert controller.updates == []
    canary, *rest = asked
    retired, settled = rest[::2], rest[1::2]
    vm_ids = {item.vm_id for item in source.simulator.scale_set("compute").members.values()}
    assert canary.startswith("elastic canary --timeout 86400 compute ")
    assert set(canary.split()[-3:]) == vm_ids
    assert [len(line.split("new image node/1.0.0 ")[1].split()) for line in retired] == [2, 1]
    assert {word for line in retired for word in line.split()[-2:]} >= vm_ids
    # Each time before the next ones go.
    assert settled == ["elastic settle --since 1779000000 --timeout 86400 compute"] * 2
    assert NEWER not in "".join(asked)


def test_a_canary_of_an_elastic_set_that_fails_keeps_the_others(source: Source, controller: Controller) -> None:
    done, asked = roll_elastic(source, controller, canary=1)

    assert done.returncode != 0
    assert "Stopped: compute-3 has the image The machines with another image stay." in output_of(done)
    assert [line.split()[1] for line in asked] == ["canary"]


def test_a_new_machine_of_an_elastic_set_that_does_not_join_keeps_the_others(
    source: Source, controller: Controller
) -> None:
    done, asked = roll_elastic(source, controller, settled=1)

    assert done.returncode != 0
    assert (
        "Stopped: compute-0: it did not join within 1200 s The other machines with another image stay."
    ) in output_of(done)
    assert [line.split()[1] for line in asked] == ["canary", "retire", "settle"]


@pytest.mark.thorough
def test_check_mode_asks_for_no_canary(source: Source, controller: Controller) -> None:
    done, asked = roll_elastic(source, controller, "--check")

    assert done.returncode == 0, output_of(done)
    assert asked == []
    assert "Would check one machine with the new image first." in output_of(done)
