# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rollout on simulated scale sets: few nodes at a time, no job killed, stopped by the first failure, resumable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible.errors import AnsibleError

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import fleet

from .cluster import FIRST_BOOT, Cluster, cluster_of

FOUR = {"name": "compute", "capacity": 4, "instance_ids": [0, 3, 9, 17]}
NAMES = ["compute-0", "compute-3", "compute-9", "compute-17"]
NEW = dict.fromkeys(NAMES, "1.1.0")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Four nodes with the old image."""
    with cluster_of(FOUR, monkeypatch=monkeypatch) as made:
        yield made


def test_every_node_gets_the_image_and_no_more_than_allowed_are_out(cluster: Cluster) -> None:
    result = cluster.roll(at_most=2)

    assert (result["stopped"], result["changed"]) == ("", True)
    assert cluster.images() == NEW
    assert cluster.slurm.most_out == 2
    assert sorted(result["resumed"]) == sorted(result["reimaged"]) == sorted(NAMES)
    assert all(node.states == {"IDLE"} and not node.reason for node in cluster.slurm.nodes.values())


def test_a_second_run_changes_nothing_and_sends_two_requests(cluster: Cluster) -> None:
    cluster.roll(at_most=4)
    cluster.simulator.clear()

    result = cluster.roll()

    assert (result["changed"], result["reimaged"], result["current"]) == (False, [], NAMES)
    assert len(cluster.simulator.requests()) == 2


def test_the_requests_do_not_grow_with_the_waiting(cluster: Cluster) -> None:
    looks = 0
    cluster.slurm.nodes["compute-0"].job = "7"

    def end_the_job() -> None:
        nonlocal looks
        looks += 1
        if looks == 60:
            cluster.slurm.nodes["compute-0"].job = ""

    cluster.slurm.on_look = end_the_job
    cluster.roll(at_most=4)

    assert looks > 60
    assert cluster.images() == NEW
    gets = [item for item in cluster.simulator.requests() if "/operations/" not in item["path"]]
    # Per node: the vmId is checked, the update is requested, and the set is listed; two requests at the start.
    assert len(gets) <= 2 + 4 * 4


def test_idle_nodes_come_first_and_a_running_job_is_waited_for(cluster: Cluster) -> None:
    busy = cluster.slurm.nodes["compute-0"]
    busy.job = "7"
    order: list[str] = []

    def look() -> None:
        if cluster.images()["compute-17"] == "1.1.0":
            busy.job = ""

    cluster.slurm.on_look = look
    result = cluster.roll(at_most=1)
    order = result["reimaged"]

    assert order == ["compute-3", "compute-9", "compute-17", "compute-0"]
    assert cluster.slurm.drained == order


def test_jobs_that_run_longer_than_the_timeout_are_not_killed_and_their_nodes_resumed(cluster: Cluster) -> None:
    cluster.slurm.nodes["compute-3"].job = "7"

    def look() -> None:
        if cluster.images() == {**NEW, "compute-3": "1.0.0"}:
            cluster.clock.now += 100

    cluster.slurm.on_look = look
    result = cluster.roll(at_most=1, timeout=3600)

    assert "the time is over (3600 s). Jobs still run on compute-3. Nothing was killed." in result["stopped"]
    assert cluster.images() == {**NEW, "compute-3": "1.0.0"}
    assert cluster.slurm.nodes["compute-3"].states == {"IDLE"}
    assert cluster.slurm.nodes["compute-3"].job == "7"
    assert result["to_do"] == ["compute-3"]


@pytest.mark.parametrize("reason", ["bad fan, ticket 4711", "hpcai: health: gpu_count: 7 of 8"])
def test_a_node_that_was_drained_before_is_left_alone(cluster: Cluster, reason: str) -> None:
    node = cluster.slurm.nodes["compute-3"]
    node.states, node.reason = {"IDLE", "DRAIN"}, reason

    result = cluster.roll(at_most=4)

    assert result["left_out"] == {"compute-3": f"it is DRAIN+IDLE: {reason}"}
    assert cluster.images() == {**NEW, "compute-3": "1.0.0"}
    assert (node.reason, node.started) == (reason, FIRST_BOOT)
    assert result["stopped"] == ""


def test_a_node_that_a_person_takes_over_while_it_waits_is_left_alone(cluster: Cluster) -> None:
    node = cluster.slurm.nodes["compute-0"]
    node.job = "7"
    for name in NAMES[1:]:
        cluster.slurm.nodes[name].states.add("NOT_RESPONDING")

    def look() -> None:
        if node.reason.startswith("hpcai: roll:"):
            node.job, node.reason = "", "mine: bad fan"

    cluster.slurm.on_look = look
    result = cluster.roll(at_most=1)

    assert (node.reason, cluster.images()["compute-0"], cluster.updates()) == ("mine: bad fan", "1.0.0", 0)
    assert "compute-0" in result["left_out"]


def test_a_canary_is_one_node_of_each_set_and_stays_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    second = {"name": "zone2", "capacity": 2, "zones": ["2"]}
    with cluster_of({**FOUR, "zones": ["1"]}, second, monkeypatch=monkeypatch) as made:
        result = made.roll(canary=True, at_most=4)

        assert result["back"] == ["compute-0", "zone2-0"]
        new = [name for name, version in made.images().items() if version == "1.1.0"]
        assert new == ["compute-0", "zone2-0"]
        assert made.slurm.nodes["compute-0"].states == {"IDLE", "DRAIN"}
        assert (result["resumed"], result["stopped"]) == ([], "")

        rest = made.roll(at_most=4)
        assert set(made.images().values()) == {"1.1.0"}
        assert "compute-0" in rest["resumed"]
        assert "compute-0" not in rest["reimaged"]


def let_the_silent_node_take_too_long(cluster: Cluster) -> None:
    """Let time pass when compute-3 has its new system."""

    def look() -> None:
        if cluster.images()["compute-3"] == "1.1.0":
            cluster.clock.now += 20

    cluster.slurm.silent.add("compute-3")
    cluster.slurm.on_look = look


def test_the_first_node_that_does_not_come_back_stops_the_rollout(cluster: Cluster) -> None:
    let_the_silent_node_take_too_long(cluster)
    cluster.slurm.nodes["compute-17"].job = "7"

    result = cluster.roll(at_most=2, boot_timeout=600)

    assert result["stopped"].startswith("compute-3 has the image, but its slurmd did not answer within 600 s. On the ")
    assert (result["lost"], result["drained"]) == (["compute-3"], ["compute-3"])
    # It was drained, waited for its job, and is released.
    assert cluster.slurm.nodes["compute-17"].states == {"IDLE"}
    assert cluster.images()["compute-17"] == "1.0.0"


def test_the_next_run_continues_when_the_node_answers(cluster: Cluster) -> None:
    let_the_silent_node_take_too_long(cluster)
    cluster.roll(at_most=4, boot_timeout=600)
    node = cluster.slurm.nodes["compute-3"]
    node.states.discard("NOT_RESPONDING")
    assert cluster.roll(boot_timeout=600)["stopped"]  # the old start time: slurmd did not start again
    node.started = "2026-11-26T23:59:59"

    result = cluster.roll(boot_timeout=600)

    assert (result["stopped"], result["resumed"], result["reimaged"]) == ("", ["compute-3"], [])
    assert cluster.images() == NEW


def test_a_refusal_by_azure_stops_the_rollout_and_the_next_run_continues(cluster: Cluster) -> None:
    cluster.simulator.add_fault("manualupgrade", status=409, code="AllocationFailed", message="No room.", times=1)

    result = cluster.roll(at_most=1)

    assert result["stopped"].startswith("compute-0: could not update to the model of the scale set the instances 0 of")
    assert "409 AllocationFailed: No room." in result["stopped"]
    assert set(cluster.images().values()) == {"1.0.0"}
    assert result["drained"] == ["compute-0"]

    assert cluster.roll(at_most=1)["stopped"] == ""
    assert cluster.images() == NEW


def test_a_system_that_does_not_boot_in_azure_stops_the_rollout(cluster: Cluster) -> None:
    cluster.backend.broken.add("wait_ready")

    result = cluster.roll(at_most=1)

    assert "OSProvisioningTimedOut" in result["stopped"]
    assert cluster.updates() == 1


def test_an_interrupted_run_is_continued(cluster: Cluster) -> None:
    looks = 0

    def interrupt() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise KeyboardInterrupt

    cluster.slurm.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        cluster.roll(at_most=2)
    cluster.slurm.on_look = lambda: None
    assert any(node.reason for node in cluster.slurm.nodes.values())

    result = cluster.roll(at_most=2)

    assert (result["stopped"], cluster.images()) == ("", NEW)
    assert all(node.states == {"IDLE"} for node in cluster.slurm.nodes.values())
    assert cluster.slurm.most_out == 2
    assert cluster.updates() == 4


def test_a_node_is_not_reimaged_again_if_the_order_was_given_but_no_answer_came(cluster: Cluster) -> None:
    node = cluster.slurm.nodes["compute-0"]
    # An earlier run marked it, and Azure had updated it before that run ended.
    node.states, node.reason = {"IDLE", "DRAIN"}, f"hpcai: roll: new image x, reimaged, slurmd was of {FIRST_BOOT}"
    node.started = "2026-11-26T23:30:00"
    item = cluster.instances["compute-0"]
    assert item.scale_set is not None
    item.image, item.model_version = item.scale_set.image, item.scale_set.model_version
    item.touch()

    result = cluster.roll(at_most=4)

    assert sorted(result["reimaged"]) == ["compute-17", "compute-3", "compute-9"]
    assert "compute-0" in result["resumed"]


def test_the_same_command_goes_back(cluster: Cluster) -> None:
    cluster.roll(at_most=4)
    cluster.want("1.0.0")

    result = cluster.roll(at_most=4, image="node/1.0.0")

    assert (result["stopped"], set(cluster.images().values())) == ("", {"1.0.0"})


def test_going_back_resumes_a_node_that_only_waited(cluster: Cluster) -> None:
    node = cluster.slurm.nodes["compute-0"]
    node.states, node.reason = {"IDLE", "DRAIN"}, "hpcai: roll: new image node/1.1.0"
    cluster.want("1.0.0")

    result = cluster.roll()

    assert (result["resumed"], result["reimaged"], node.states) == (["compute-0"], [], {"IDLE"})


def test_throttling_is_waited_for(cluster: Cluster) -> None:
    cluster.simulator.add_fault("manualupgrade", status=429, headers={"Retry-After": "1"}, times=2)

    assert cluster.roll(at_most=4)["stopped"] == ""
    assert cluster.images() == NEW


def test_an_instance_that_was_replaced_meanwhile_is_not_reimaged(cluster: Cluster) -> None:
    cluster.instances["compute-3"].vm_id = "99999999-0000-4000-8000-000000000000"
    cluster.instances["compute-3"].touch()
    action = cluster.roll

    nodes = [
        {"node": name, "azure_id": item.id, "vm_id": item.vm_id if name != "compute-3" else "another"}
        for name, item in cluster.instances.items()
    ]
    result = action(at_most=4, nodes=nodes)

    assert result["left_out"] == {"compute-3": "its instance no longer exists"}
    assert cluster.images() == {**NEW, "compute-3": "1.0.0"}


def test_a_slurmctld_that_restarts_does_not_end_the_rollout(cluster: Cluster) -> None:
    cluster.slurm.fails = 3

    assert cluster.roll(at_most=2)["stopped"] == ""
    assert cluster.images() == NEW


def test_a_failed_list_does_not_end_the_rollout(cluster: Cluster) -> None:
    match = "GET .*/virtualMachineScaleSets/compute/virtualMachines"
    cluster.simulator.add_fault(match, status=403, code="AuthorizationFailed", after=2, times=1)

    result = cluster.roll(at_most=4)

    # The vmId could not be checked before an update, or a list after one failed: both are safe.
    assert result["stopped"] == "" or "AuthorizationFailed" in result["stopped"]
    assert cluster.roll(at_most=4)["stopped"] == ""
    assert cluster.images() == NEW


def test_an_image_that_somebody_else_sets_meanwhile_stops_the_rollout(cluster: Cluster) -> None:
    scale_set = cluster.simulator.scale_set("compute")
    wanted = {scale_set.id: str(scale_set.image.id)}
    looks = 0

    def change() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            scale_set.profile["storageProfile"]["imageReference"] = {"id": scale_set.image.id.replace("1.1.0", "1.0.0")}

    cluster.slurm.on_look = change
    result = cluster.roll(at_most=1, images=wanted)

    assert "Somebody else changed it" in result["stopped"]
    assert cluster.updates() == 1


def test_success_of_azure_without_the_image_stops_the_rollout(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = fleet.instance_operations.update_to_model

    def only_the_request(clients: Any, targets: Any) -> None:
        del clients, targets

    monkeypatch.setattr(fleet.instance_operations, "update_to_model", only_the_request)
    result = cluster.roll(at_most=1)
    monkeypatch.setattr(fleet.instance_operations, "update_to_model", original)

    assert "compute-0: Azure reports success, but the instance does not have the image" in result["stopped"]


def test_check_mode_lists_the_nodes_in_order_and_changes_nothing(cluster: Cluster) -> None:
    cluster.slurm.nodes["compute-0"].job = "7"
    cluster.slurm.nodes["compute-3"].states = {"DOWN"}
    scale_set = cluster.simulator.scale_set("compute")

    result = cluster.roll(check=True, at_most=2, images={scale_set.id: str(scale_set.image.id)})

    assert (result["changed"], result["to_do"]) == (True, ["compute-9", "compute-17", "compute-0"])
    assert list(result["left_out"]) == ["compute-3"]
    assert cluster.slurm.drained == []
    assert cluster.updates() == 0


def test_at_most_must_be_a_positive_number(cluster: Cluster) -> None:
    with pytest.raises(AnsibleError, match="at_most must be 1 or more"):
        cluster.roll(at_most=0)
