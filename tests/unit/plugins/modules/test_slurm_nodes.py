# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_nodes with a fake slurmctld."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_nodes

from .fake_slurmctld import Slurmctld, play

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def slurmctld(monkeypatch: pytest.MonkeyPatch) -> Slurmctld:
    """A cluster of four nodes."""
    return play(monkeypatch)


def reading(**counts: int) -> dict[str, Any]:
    """What the module slurmd measured on a node."""
    return {"hardware": {"CPUs": 2, "RealMemory": 2000, **counts}, "missing_files": [], "waits": []}


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> str:
    """The folder of a slurm.conf."""
    nodes = "NodeName=compute-[0,3,17-18] CPUs=2 RealMemory=1945\n"
    (tmp_path / "slurm.conf").write_text(nodes, encoding="utf-8")
    return str(tmp_path)


def test_drains_and_resumes_nodes_and_returns_them(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-3"] = ("IDLE+DRAIN", "hpcai: health: gpu_count")
    # Somebody else drained it, so it is not waited for.
    slurmctld.nodes["compute-17"] = ("IDLE+DRAIN+NOT_RESPONDING", "bad fan")
    slurmctld.registers_after["compute-17"] = 1000
    answer = run_module(
        slurm_nodes.main,
        keep_out=["compute-18"],
        put_to_work=["compute-0", "compute-3", "compute-17"],
        prefix="hpcai: health:",
        reason="gpu_memory",
    )
    assert answer["_exit"] == 0
    assert answer["changed"] is True
    assert answer["drained"] == ["compute-18"]
    assert answer["resumed"] == ["compute-3"]
    assert answer["left_out"] == {"compute-17": "bad fan"}
    assert answer["not_answering"] == []
    assert slurmctld.updates == [
        ("NodeName=compute-18", "State=DRAIN", "Reason=hpcai: health: gpu_memory"),
        ("NodeName=compute-3", "State=RESUME"),
    ]
    assert answer["diff"] == {
        "before": "compute-18: ALLOCATED\ncompute-3: IDLE+DRAIN hpcai: health: gpu_count\n",
        "after": "compute-18: DRAIN hpcai: health: gpu_memory\ncompute-3: RESUME\n",
    }
    assert slurmctld.now == 1  # until compute-3 answered again


def test_a_second_run_changes_nothing(slurmctld: Slurmctld, run_module: RunModule) -> None:
    arguments = {"keep_out": ["compute-18"], "put_to_work": ["compute-0", "compute-3"]}
    assert run_module(slurm_nodes.main, **arguments)["changed"] is True
    del slurmctld.updates[:]
    again = run_module(slurm_nodes.main, **arguments)
    assert (again["changed"], again["drained"], again["resumed"]) == (False, [], [])
    assert again["diff"] == {"before": "", "after": ""}
    assert slurmctld.updates == []


def test_check_mode_returns_the_same_changes_and_makes_none(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-0"] = ("IDLE+NOT_RESPONDING", "")
    slurmctld.registers_after["compute-0"] = 1000
    arguments = {"keep_out": ["compute-18"], "put_to_work": ["compute-0", "compute-3"]}
    answer = run_module(slurm_nodes.main, check_mode=True, **arguments)
    assert (answer["changed"], answer["drained"], answer["resumed"]) == (True, ["compute-18"], ["compute-3"])
    assert answer["diff"]["after"] == "compute-18: DRAIN hpcai: site: could not be configured\ncompute-3: RESUME\n"
    assert answer["not_answering"] == []
    assert slurmctld.updates == []
    assert slurmctld.now == 0


def test_drains_at_once_and_resumes_only_nodes_that_register_in_time(
    slurmctld: Slurmctld, run_module: RunModule
) -> None:
    slurmctld.nodes["compute-0"] = ("DOWN+DRAIN+NOT_RESPONDING", "hpcai: site: could not be configured")
    slurmctld.nodes["compute-3"] = ("UNKNOWN+DRAIN+NOT_RESPONDING", "hpcai: site: could not be configured")
    slurmctld.registers_after = {"compute-0": 1000, "compute-3": 7}
    answer = run_module(slurm_nodes.main, keep_out=["compute-18"], put_to_work=["compute-0", "compute-3"])
    assert answer["_exit"] == 0
    assert (answer["resumed"], answer["not_answering"]) == (["compute-3"], ["compute-0"])
    assert [words[:2] for words in slurmctld.updates] == [
        ("NodeName=compute-18", "State=DRAIN"),
        ("NodeName=compute-3", "State=RESUME"),
    ]
    # By default it waits for 60 s, and then 1 s for compute-3 to answer again.
    assert (slurmctld.updated_at, slurmctld.now) == ([0, 60], 61)
    assert "compute-0" not in answer["diff"]["after"]


def test_a_timeout_of_zero_checks_once(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-0"] = ("DOWN+NOT_RESPONDING", "Not responding")
    slurmctld.registers_after["compute-0"] = 1000
    answer = run_module(slurm_nodes.main, put_to_work=["compute-0", "compute-3"], timeout=0)
    # A resumed node does not answer immediately.
    assert (answer["resumed"], answer["not_answering"]) == (["compute-3"], ["compute-0", "compute-3"])
    assert slurmctld.now == 0


def test_drains_nodes_that_lack_memory_unless_somebody_else_drained_them(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    reason = "hpcai: hardware: RealMemory is 1900, configured 1945"
    less = reading(RealMemory=1900)
    # It gets no jobs anyway, so it is not waited for.
    slurmctld.nodes["compute-0"] = ("IDLE+NOT_RESPONDING", "")
    slurmctld.registers_after["compute-0"] = 1000
    readings = {"compute-0": less, "compute-3": less, "compute-17": less, "compute-18": reading(CPUs=64)}
    arguments = {"put_to_work": list(readings), "seen": readings, "conf": conf}
    unfit = dict.fromkeys(["compute-0", "compute-3", "compute-17"], reason)
    assert run_module(slurm_nodes.main, check_mode=True, **arguments)["unfit"] == unfit
    assert slurmctld.updates == []
    answer = run_module(slurm_nodes.main, **arguments)
    assert (answer["changed"], answer["resumed"], answer["unfit"]) == (True, [], unfit)
    assert answer["left_out"] == {"compute-17": "bad fan, ticket 4711"}
    assert slurmctld.updates == [("NodeName=compute-[0,3]", "State=DRAIN", f"Reason={reason}")]
    assert answer["diff"]["after"] == f"compute-0: DRAIN {reason}\ncompute-3: DRAIN {reason}\n"
    again = run_module(slurm_nodes.main, **arguments)
    assert (again["changed"], again["unfit"]) == (False, unfit)
    assert slurmctld.now == 0


def test_resumes_a_node_only_after_a_measurement_found_its_hardware_complete(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    slurmctld.nodes["compute-0"] = ("IDLE+DRAIN", "hpcai: hardware: RealMemory is 1900, configured 1945")
    arguments: dict[str, Any] = {"put_to_work": ["compute-0"], "conf": conf}
    # Not measured, or not measurable: the reason stays.
    unseen: list[dict[str, Any]] = [{}, {"compute-0": None}, {"compute-0": {}}, {"compute-0": {"hardware": {}}}]
    for readings in unseen:
        assert run_module(slurm_nodes.main, seen=readings, **arguments)["resumed"] == []
    answer = run_module(slurm_nodes.main, seen={"compute-0": reading()}, **arguments)
    assert (answer["resumed"], answer["unfit"]) == (["compute-0"], {})


def test_fails_before_any_change_if_slurmctld_lacks_a_node(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, keep_out=["compute-18", "compute-99"])
    assert answer["failed"] is True
    assert answer["_exit"] == 1
    assert answer["msg"] == "slurmctld knows no node named compute-99: is slurm.conf up to date?"
    assert slurmctld.updates == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *[({"prefix": prefix}, "prefix must start with 'hpcai:'") for prefix in ("", "site:", "hpcai", " hpcai:")],
        ({"hold": True, "keep_out": ["compute-18"]}, "hold excludes keep_out"),
        ({"hold": True, "put_to_work": ["compute-3"]}, "hold excludes keep_out"),
    ],
)
def test_refuses_invalid_arguments(
    slurmctld: Slurmctld, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(slurm_nodes.main, **{"put_to_work": ["compute-17"], **arguments})
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert slurmctld.updates == []


def test_check_mode_only_warns_if_slurmctld_is_down(
    slurmctld: Slurmctld, run_module: RunModule, warned: list[str]
) -> None:
    slurmctld.down = True
    answer = run_module(slurm_nodes.main, check_mode=True, keep_out=["compute-18"], put_to_work=["compute-0"])
    assert answer["_exit"] == 0
    assert (answer["changed"], answer["drained"], answer["resumed"]) == (False, [], [])
    (warning,) = warned
    assert "Unable to contact slurm controller. Check mode cannot tell" in warning


def test_check_mode_only_warns_if_slurmctld_lacks_a_node(
    slurmctld: Slurmctld, run_module: RunModule, warned: list[str]
) -> None:
    answer = run_module(slurm_nodes.main, check_mode=True, put_to_work=["compute-3", "compute-99"])
    assert answer["_exit"] == 0
    assert (answer["changed"], answer["resumed"]) == (True, ["compute-3"])
    (warning,) = warned
    assert "slurmctld knows no node named compute-99" in warning
    assert slurmctld.updates == []


def test_sets_spare_nodes_down_once_and_then_releases_new_jobs(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes = {
        "compute-18": ("IDLE+CLOUD", ""),
        "compute-19": ("DOWN+CLOUD+DRAIN", "hpcai: retire: its instance will be deleted"),
        "compute-30": ("IDLE+CLOUD", ""),
    }
    slurmctld.addresses["compute-19"] = "10.0.0.9"
    # slurmctld hides it if PrivateData lacks "cloud". The module cannot know whether setting it down changes anything.
    slurmctld.hidden = {"compute-30"}
    slurmctld.held = True
    absent = ["compute-18", "compute-19", "compute-30"]
    answer = run_module(slurm_nodes.main, absent=absent)
    assert (answer["changed"], answer["set_down"]) == (True, ["compute-18", "compute-19"])
    assert answer["diff"] == {
        "before": "compute-18: IDLE+CLOUD\ncompute-19: DOWN+CLOUD+DRAIN hpcai: retire: its instance will be deleted\n",
        "after": "compute-18: DOWN hpcai: no such instance\ncompute-19: DOWN hpcai: no such instance\n",
    }
    assert [words[:2] for words in slurmctld.updates] == [
        ("NodeName=compute-19", "State=UNDRAIN"),
        ("NodeName=compute-19", "State=DOWN"),
        ("NodeName=compute-19", "NodeAddr=127.0.0.1"),
        ("NodeName=compute-[18,30]", "State=DOWN"),
        ("delete", "ReservationName=hpcai-new-nodes"),
    ]
    again = run_module(slurm_nodes.main, absent=absent)
    assert (again["changed"], again["set_down"]) == (False, [])
    assert [words[:2] for words in slurmctld.updates[5:]] == [("NodeName=compute-30", "State=DOWN")]


@pytest.mark.parametrize(
    ("absent", "pending", "held", "set_down", "before"),
    [
        (["compute-30", "compute-31"], False, False, ["compute-30"], "compute-30: IDLE+CLOUD\n"),
        (["compute-31"], True, False, ["compute-31"], "compute-31: not known yet\n"),
        # The end of the reservation alone is a change too.
        ([], True, False, [], ""),
        ([], False, True, [], ""),
    ],
)
def test_check_mode_predicts_which_spare_nodes_are_set_down(
    slurmctld: Slurmctld,
    run_module: RunModule,
    warned: list[str],
    absent: list[str],
    pending: bool,
    held: bool,
    set_down: list[str],
    before: str,
) -> None:
    slurmctld.nodes["compute-30"] = ("IDLE+CLOUD", "")
    slurmctld.held = held
    answer = run_module(slurm_nodes.main, check_mode=True, absent=absent, pending=pending)
    assert (answer["changed"], answer["set_down"], answer["diff"]["before"]) == (True, set_down, before)
    assert (slurmctld.updates, warned) == ([], [])
    assert run_module(slurm_nodes.main, check_mode=True, absent=[])["changed"] is held


def test_only_a_task_with_absent_releases_new_jobs(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.held = True
    assert run_module(slurm_nodes.main, keep_out=[])["changed"] is False
    assert slurmctld.held
    assert run_module(slurm_nodes.main, absent=[])["changed"] is True
    assert not slurmctld.held


def test_hold_holds_new_jobs_back_and_forgets_former_machines(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes = {"compute-1": ("IDLE+DRAIN", "hpcai: retire: x"), "compute-5": ("IDLE+CLOUD", "")}
    arguments: dict[str, Any] = {"hold": True, "absent": ["compute-1", "compute-5", "compute-9"]}
    assert run_module(slurm_nodes.main, check_mode=True, hold=True)["changed"] is True
    assert run_module(slurm_nodes.main, check_mode=True, **arguments)["set_down"] == ["compute-1"]
    assert slurmctld.updates == []
    answer = run_module(slurm_nodes.main, hold=True)
    assert (answer["changed"], answer["set_down"], answer["drained"]) == (True, [], [])
    answer = run_module(slurm_nodes.main, **arguments)
    assert (answer["changed"], answer["set_down"]) == (True, ["compute-1"])
    assert [words[:2] for words in slurmctld.updates] == [
        ("create", "reservation"),
        ("update", "ReservationName=hpcai-new-nodes"),
        ("NodeName=compute-1", "State=UNDRAIN"),
        ("NodeName=compute-1", "State=DOWN"),
        ("NodeName=compute-1", "NodeAddr=127.0.0.1"),
    ]


def test_hold_does_nothing_if_slurmctld_is_down(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.down = True
    answer = run_module(slurm_nodes.main, hold=True, absent=["compute-1"])
    assert (answer["_exit"], answer["changed"]) == (0, False)


def test_a_refused_reservation_is_only_a_warning(
    slurmctld: Slurmctld, run_module: RunModule, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str]) -> Result:
        if "create" in command:
            return Result(tuple(command), 1, "", "Error creating the reservation: Access/permission denied\n")
        return slurmctld.run(command)

    monkeypatch.setattr(slurm_nodes, "run", run)
    answer = run_module(slurm_nodes.main, hold=True)
    assert (answer["_exit"], answer["changed"]) == (0, False)
    (warning,) = warned
    assert "Access/permission denied. Until the spare nodes are set down" in warning
