# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon of elastic sets against the simulated Resource Manager over TLS, when orders or deletions fail.

The daemon, its client and its token are the real ones; slurmctld is the model of the unit tests, and time is simulated.
Counts are taken in the simulated Resource Manager, not in the daemon's book.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.elastic_world import World
from simulator.testing import Simulator, running


def scenario(*names: str) -> dict[str, Any]:
    """A subscription with a controller and empty scale sets, in a large network."""
    return {
        "virtual_networks": [{"address_prefixes": ["10.80.0.0/20"]}],
        "virtual_machines": [{"name": "controller"}],
        "scale_sets": [{"name": name, "capacity": 0, "single_placement_group": False} for name in names],
    }


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator with an empty set, with short pages."""
    with running(scenario("gpu"), vm_page_size=2) as made:
        made.clear()
        yield made


@pytest.fixture(autouse=True)
def endpoint(simulator: Simulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Resource Manager over TLS. This process trusts its certificate."""
    url, certificate = simulator.serve_tls()
    (tmp_path / "ca.crt").write_bytes(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    return url


@pytest.fixture
def world(simulator: Simulator, endpoint: str, tmp_path: Path) -> World:
    """A set whose nodes are idle for 10 minutes before they go."""
    return World(simulator, endpoint, tmp_path)


@pytest.mark.daily(2)
@pytest.mark.parametrize(("others", "nodes"), [(("a", "b"), 0), ((), 4), ((), 0), (("a",), 130)])
def test_an_idle_cluster_asks_azure_at_most_once_a_minute(tmp_path: Path, others: tuple[str, ...], nodes: int) -> None:
    with running(scenario("gpu", *others), vm_page_size=120, interface_page_size=100) as simulator:
        world = World(simulator, simulator.endpoint, tmp_path, size=max(6, nodes), others=others, idle_s=1e6)
        if nodes:
            job = world.slurm.submit(nodes, 60)
            assert world.advance(300, lambda: job.state == "DONE")
        # The last change is a while ago.
        world.advance(600)
        simulator.clear()
        world.advance(3600)
        assert len(world.members) == nodes
        assert 2 * (1 + len(others)) <= len(simulator.requests()) <= 60


def test_growth_by_600_nodes_is_one_change_and_at_most_40_requests(tmp_path: Path) -> None:
    # The page sizes that Azure is assumed to have.
    with running(scenario("gpu"), vm_page_size=120, interface_page_size=100) as simulator:
        simulator.clear()
        world = World(simulator, simulator.endpoint, tmp_path, size=600)
        job = world.slurm.submit(600, 3600)
        assert world.advance(300, world.runs(job))
        assert len(world.members) == 600
        assert world.changes("PATCH") == [200]
        assert len(simulator.requests()) <= 40


@pytest.mark.thorough
def test_a_late_order_is_not_repeated(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^CREATE ", "hang", service="scale", after=1)
    job = world.slurm.submit(2, 3600)
    assert not world.advance(600, world.runs(job))
    assert (world.capacity, world.changes("PATCH")) == (2, [200])
    simulator.faults.clear()
    assert world.advance(120, world.runs(job))
    assert (len(world.members), world.changes("PATCH")) == (2, [200])
    assert not world.differences()


@pytest.mark.thorough
@pytest.mark.parametrize("action", ["status", "revert"])
def test_an_order_that_fails_after_minutes_costs_nothing(world: World, simulator: Simulator, action: str) -> None:
    simulator.add_fault("^GROW ", action, service="scale", delay_s=1000, code="ZonalAllocationFailed", times=1)
    job = world.slurm.submit(2, 3600)
    world.advance(240)
    assert (job.state, world.members) == ("CONFIGURING", [])
    simulator.faults.clear()
    assert world.advance(60, lambda: bool(job.requeued))
    assert "ZonalAllocationFailed" in job.words[0]
    assert all(node.down for node in world.slurm.nodes.values())
    # The set opens again after ten minutes, and orders what it needs, not what the failed order left in the capacity.
    assert world.advance(1500, world.runs(job))
    assert len(world.members) == world.capacity == 2
    assert not world.differences()


def test_a_partial_order_leaves_no_instance_without_a_job(simulator: Simulator, endpoint: str, tmp_path: Path) -> None:
    world = World(simulator, endpoint, tmp_path, idle_s=60)
    simulator.add_fault("^CREATE ", "omit", service="scale", after=2, times=1, code="AllocationFailed")
    job = world.slurm.submit(3, 3600)
    assert world.advance(120, lambda: bool(job.requeued))
    assert len(world.members) == 2
    assert "AllocationFailed" in job.words[0]
    # Nobody needs the two machines until the set opens again.
    assert world.advance(500, lambda: not world.members)
    assert world.advance(1200, world.runs(job))
    assert len(world.members) == world.capacity == 3
    assert not world.differences()


@pytest.mark.thorough
def test_an_order_that_never_ends_is_given_up(simulator: Simulator, endpoint: str, tmp_path: Path) -> None:
    world = World(simulator, endpoint, tmp_path, order_s=600)
    simulator.add_fault("^GROW ", "hang", service="scale", times=1)
    job = world.slurm.submit(2, 3600)
    assert world.advance(660, lambda: bool(job.requeued))
    assert "OrderTimeout" in job.words[0]
    assert world.changes("PATCH") == [200]
    # Azure still says that it changes the set, so nothing may be lowered; a new order is on top.
    assert world.advance(1800, world.runs(job))
    # The first order's instances come after all, and go when nobody has needed them for five minutes.
    assert world.advance(600, lambda: len(world.members) == 2)
    simulator.faults.clear()
    world.advance(60)
    assert {one.vm_id for one in world.members} == {node.lease for node in world.slurm.nodes.values() if not node.power}


@pytest.mark.thorough
def test_a_failed_member_is_deleted_and_replaced(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^CREATE ", "status", service="scale", times=1, code="OSProvisioningTimedOut")
    job = world.slurm.submit(2, 3600)
    world.advance(60)
    assert world.capacity <= 2
    assert world.advance(1800, world.runs(job))
    assert [one.provisioning_state for one in world.members] == ["Succeeded"] * 2
    assert world.changes("POST") != []
    assert not world.differences()


@pytest.mark.thorough
def test_five_machines_that_never_boot_are_deleted_and_stop_the_set(
    simulator: Simulator, endpoint: str, tmp_path: Path
) -> None:
    world = World(simulator, endpoint, tmp_path, boot_s=120)
    simulator.add_fault("^CREATE ", "dead", service="scale")
    job = world.slurm.submit(1, 600)
    assert world.advance(240, lambda: bool(job.requeued))
    assert "NeverJoined" in job.words[0]
    world.advance(3600)
    assert len([line for line in world.lines if "stopped: 5 machines in a row" in line]) == 1
    assert (world.members, world.capacity) == ([], 0)
    assert world.changes("PATCH") == [200] * 5
    simulator.faults.clear()
    world.open_again()
    assert world.advance(600, world.runs(job))


@pytest.mark.thorough
def test_a_reused_id_is_another_machine(world: World, simulator: Simulator) -> None:
    first = world.slurm.submit(1, 60)
    assert world.advance(180, world.runs(first))
    [former] = world.members
    assert world.advance(1200, lambda: not world.members)
    simulator.add_fault("^CREATE ", "reuse", service="scale", times=1)
    second = world.slurm.submit(2, 600)
    assert world.advance(300, world.runs(second))
    ids = {one.instance_id: one.vm_id for one in world.members}
    assert former.instance_id in ids
    assert ids[former.instance_id] != former.vm_id
    assert not world.differences()
    # The deletion is by id: the new machine with the old id goes only when its own node is idle.
    world.advance(300)
    assert len(world.members) == 2
    assert world.advance(1500, lambda: not world.members)


@pytest.mark.thorough
def test_an_instance_that_lists_show_late_is_not_ordered_again(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^CREATE ", "hide", service="scale", times=1)
    job = world.slurm.submit(2, 3600)
    assert not world.advance(45, world.runs(job))
    assert world.changes("PATCH") == [200]
    simulator.faults.clear()
    assert world.advance(120, world.runs(job))
    assert (len(world.members), world.changes("PATCH")) == (2, [200])
    assert not world.differences()


@pytest.mark.thorough
def test_an_instance_that_lists_show_after_its_deadline_is_used_or_deleted(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^CREATE ", "hide", service="scale", times=1)
    job = world.slurm.submit(2, 60)
    assert world.advance(300, lambda: bool(job.requeued))
    assert "PartialOrder" in job.words[0]
    simulator.faults.clear()
    assert world.advance(1500, world.runs(job))
    assert len(world.members) == 2
    assert world.advance(1500, lambda: not world.members)
    assert world.capacity == 0


@pytest.mark.parametrize(
    "action",
    ["status", pytest.param("omit", marks=pytest.mark.thorough), pytest.param("hang", marks=pytest.mark.thorough)],
)
def test_a_deletion_without_effect_is_repeated(
    simulator: Simulator, endpoint: str, tmp_path: Path, action: str
) -> None:
    world = World(simulator, endpoint, tmp_path, idle_s=60)
    simulator.add_fault("^DELETE ", action, service="scale", times=1, code="OperationPreempted")
    job = world.slurm.submit(2, 60)
    assert world.advance(180, world.runs(job))
    world.advance(300)
    if action == "hang":
        # Azure still deletes it: asking again would change nothing.
        assert [one.provisioning_state for one in world.members] == ["Deleting"]
        assert len(world.changes("POST")) == 1
        simulator.faults.clear()
    assert world.advance(300, lambda: not world.members)
    assert world.capacity == 0
    assert 1 <= len(world.changes("POST")) <= 2
    world.advance(120)
    assert not world.differences()


def test_a_throttled_daemon_waits_as_long_as_azure_asks(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^GET ", "bucket", tokens=4, refill_s=30)
    job = world.slurm.submit(2, 3600)
    assert world.advance(1200, world.runs(job))
    statuses = [one["status"] for one in simulator.requests()]
    assert 429 in statuses
    # After a refusal, the next request is the one for which Azure has a token again.
    for position, status in enumerate(statuses[:-1]):
        if status == 429:
            assert world.asked[position + 1] - world.asked[position] >= 15, world.asked
    assert len(world.members) == world.capacity == 2
    assert not world.differences()


@pytest.mark.thorough
def test_a_throttled_change_is_made_once(world: World, simulator: Simulator) -> None:
    simulator.add_fault("^PATCH ", "bucket", tokens=1, refill_s=300)
    first, second = world.slurm.submit(1, 3600), world.slurm.submit(1, 3600)
    assert world.advance(120, world.runs(first))
    third = world.slurm.submit(2, 3600)
    assert world.advance(900, world.runs(third))
    assert second.state == "RUNNING"
    assert world.changes("PATCH").count(200) == 2
    assert len(world.members) == world.capacity == 4
    assert not world.differences()


def test_a_throttled_deletion_waits_as_long_as_azure_asks(simulator: Simulator, endpoint: str, tmp_path: Path) -> None:
    world = World(simulator, endpoint, tmp_path, idle_s=60)
    simulator.add_fault("^POST ", "bucket", tokens=1, refill_s=300)
    first, second = world.slurm.submit(1, 60), world.slurm.submit(1, 240)
    assert world.advance(180, lambda: first.state == second.state == "RUNNING")
    assert world.advance(900, lambda: not world.members)
    # The first takes the bucket's only token; the second is refused, and then asked for when there is one again.
    assert [status < 300 for status in world.changes("POST")] == [True, False, True]
    assert world.capacity == 0
