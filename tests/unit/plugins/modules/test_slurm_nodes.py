# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_nodes with a fake slurmctld."""

from __future__ import annotations

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


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The module's warnings. In this process Ansible prints warnings at once and does not return them."""
    warnings: list[str] = []
    monkeypatch.setattr(slurm_nodes.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    return warnings


def test_drains_and_resumes_nodes_and_returns_them(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(
        slurm_nodes.main, keep_out=["compute-18"], put_to_work=["compute-0", "compute-3"], reason="could not be reached"
    )
    assert answer["_exit"] == 0
    assert answer["changed"] is True
    assert answer["drained"] == ["compute-18"]
    assert answer["resumed"] == ["compute-3"]
    assert answer["left_out"] == {}
    assert answer["not_answering"] == []
    assert slurmctld.updates == [
        ("NodeName=compute-18", "State=DRAIN", "Reason=hpcai: site: could not be reached"),
        ("NodeName=compute-3", "State=RESUME"),
    ]
    assert answer["diff"] == {
        "before": "compute-18: ALLOCATED\ncompute-3: IDLE+DRAIN hpcai: site: could not be configured\n",
        "after": "compute-18: DRAIN hpcai: site: could not be reached\ncompute-3: RESUME\n",
    }


def test_waits_until_a_resumed_node_answers_again(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, put_to_work=["compute-3"])
    assert (answer["resumed"], answer["not_answering"]) == (["compute-3"], [])
    assert slurmctld.now == 1


def test_returns_resumed_nodes_that_do_not_answer_again(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, put_to_work=["compute-3"], timeout=0)
    assert (answer["resumed"], answer["not_answering"]) == (["compute-3"], ["compute-3"])


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


def test_a_drain_reason_of_others_is_kept(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-18"] = ("DOWN", "disk broken")
    answer = run_module(slurm_nodes.main, keep_out=["compute-18"], put_to_work=["compute-17"])
    assert answer["changed"] is False
    assert answer["left_out"] == {"compute-17": "bad fan, ticket 4711"}
    assert slurmctld.updates == []


def test_does_not_wait_for_a_node_that_others_drained(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-17"] = ("IDLE+DRAIN+NOT_RESPONDING", "bad fan")
    slurmctld.registers_after["compute-17"] = 1000
    assert run_module(slurm_nodes.main, put_to_work=["compute-17"])["not_answering"] == []
    assert slurmctld.now == 0


def test_resumes_a_drained_node_only_after_it_registered(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-3"] = ("UNKNOWN+DRAIN+NOT_RESPONDING", "hpcai: site: could not be configured")
    slurmctld.registers_after["compute-3"] = 7
    answer = run_module(slurm_nodes.main, put_to_work=["compute-3"], timeout=60)
    assert answer["_exit"] == 0
    assert answer["resumed"] == ["compute-3"]
    assert slurmctld.now == 8  # 7 to register, 1 to answer again


def test_nodes_that_do_not_answer_in_time_stay_drained(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-3"] = ("DOWN+DRAIN+NOT_RESPONDING", "hpcai: site: could not be configured")
    slurmctld.nodes["compute-18"] = ("IDLE+DRAIN", "hpcai: site: could not be configured")
    slurmctld.registers_after["compute-3"] = 1000
    answer = run_module(slurm_nodes.main, put_to_work=["compute-0", "compute-3", "compute-18"], timeout=5)
    assert answer["_exit"] == 0
    assert answer["not_answering"] == ["compute-3"]
    assert answer["resumed"] == ["compute-18"]
    assert slurmctld.updates == [("NodeName=compute-18", "State=RESUME")]
    assert slurmctld.now == 6  # 5 for compute-3, 1 for compute-18 to answer again
    assert "compute-3" not in answer["diff"]["after"]


def test_drains_before_it_waits(slurmctld: Slurmctld, run_module: RunModule) -> None:
    drained_at: list[float] = []
    played = slurmctld.run

    def run(command: Sequence[str]) -> Result:
        if "State=DRAIN" in command:
            drained_at.append(slurmctld.now)
        return played(command)

    slurmctld.nodes["compute-0"] = ("UNKNOWN+NOT_RESPONDING", "")
    slurmctld.registers_after["compute-0"] = 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_nodes, "run", run)
        run_module(slurm_nodes.main, keep_out=["compute-18"], put_to_work=["compute-0"])
    assert drained_at == [0]
    assert slurmctld.now == 3


def test_the_default_timeout_is_60_seconds(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-0"] = ("DOWN+NOT_RESPONDING", "Not responding")
    slurmctld.registers_after["compute-0"] = 1000
    assert run_module(slurm_nodes.main, put_to_work=["compute-0"])["not_answering"] == ["compute-0"]
    assert slurmctld.now == 60


def test_a_timeout_of_zero_checks_once(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes["compute-0"] = ("DOWN+NOT_RESPONDING", "Not responding")
    slurmctld.registers_after["compute-0"] = 1000
    assert run_module(slurm_nodes.main, put_to_work=["compute-0"], timeout=0)["not_answering"] == ["compute-0"]
    assert slurmctld.now == 0


def test_fails_before_any_change_if_slurmctld_lacks_a_node(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, keep_out=["compute-18", "compute-99"])
    assert answer["failed"] is True
    assert answer["_exit"] == 1
    assert answer["msg"] == "slurmctld knows no node named compute-99: is slurm.conf up to date?"
    assert slurmctld.updates == []


def test_fails_with_slurms_message_if_slurmctld_is_down(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.down = True
    answer = run_module(slurm_nodes.main, keep_out=["compute-18"])
    assert answer["failed"] is True
    assert "Unable to contact slurm controller" in answer["msg"]


@pytest.mark.parametrize("prefix", ["", "site:", "hpcai", " hpcai:"])
def test_refuses_a_prefix_that_does_not_start_with_hpcai(
    slurmctld: Slurmctld, run_module: RunModule, prefix: str
) -> None:
    answer = run_module(slurm_nodes.main, put_to_work=["compute-17"], prefix=prefix)
    assert answer["failed"] is True
    assert "prefix must start with 'hpcai:'" in answer["msg"]
    assert slurmctld.updates == []


def test_does_not_resume_nodes_with_another_prefix(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, put_to_work=["compute-3"], prefix="hpcai: health:")
    assert answer["resumed"] == []
    assert answer["left_out"] == {"compute-3": "hpcai: site: could not be configured"}


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


def test_sets_spare_nodes_down_once(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.nodes = {"compute-0": ("IDLE", ""), "compute-18": ("IDLE+CLOUD", ""), "compute-19": ("IDLE+CLOUD", "")}
    slurmctld.addresses["compute-19"] = "10.0.0.9"
    answer = run_module(slurm_nodes.main, absent=["compute-18", "compute-19"])
    assert (answer["changed"], answer["set_down"]) == (True, ["compute-18"])
    assert answer["diff"] == {
        "before": "compute-18: IDLE+CLOUD\n",
        "after": "compute-18: DOWN hpcai: no such instance\n",
    }
    assert slurmctld.updates == [("NodeName=compute-18", "State=DOWN", "Reason=hpcai: no such instance")]
    again = run_module(slurm_nodes.main, absent=["compute-18", "compute-19"])
    assert (again["changed"], again["set_down"]) == (False, [])
    assert len(slurmctld.updates) == 1


def test_check_mode_predicts_which_spare_nodes_are_set_down(
    slurmctld: Slurmctld, run_module: RunModule, warned: list[str]
) -> None:
    slurmctld.nodes["compute-30"] = ("IDLE+CLOUD", "")
    slurmctld.held = True
    answer = run_module(slurm_nodes.main, check_mode=True, absent=["compute-30", "compute-31"])
    assert (answer["changed"], answer["set_down"], warned) == (True, ["compute-30"], [])
    assert slurmctld.updates == []


def test_check_mode_predicts_spare_nodes_unknown_to_slurmctld(slurmctld: Slurmctld, run_module: RunModule) -> None:
    options: dict[str, Any] = {"absent": ["compute-30", "compute-31"], "pending": True}
    answer = run_module(slurm_nodes.main, check_mode=True, **options)
    assert (answer["changed"], answer["set_down"]) == (True, ["compute-30", "compute-31"])
    assert answer["diff"]["before"] == "compute-30: not known yet\ncompute-31: not known yet\n"
    assert slurmctld.updates == []


def test_check_mode_predicts_the_end_of_the_reservation(slurmctld: Slurmctld, run_module: RunModule) -> None:
    assert run_module(slurm_nodes.main, check_mode=True, absent=[], pending=True)["changed"] is True
    assert run_module(slurm_nodes.main, check_mode=True, absent=[])["changed"] is False


def test_sets_spare_nodes_down_that_slurmctld_hides(slurmctld: Slurmctld, run_module: RunModule) -> None:
    """slurmctld hides them if PrivateData lacks "cloud". The module cannot know whether this changes anything."""
    slurmctld.nodes["compute-30"] = ("IDLE+CLOUD", "")
    slurmctld.hidden = {"compute-30"}
    answer = run_module(slurm_nodes.main, absent=["compute-30"])
    assert (answer["changed"], answer["set_down"]) == (False, [])
    assert slurmctld.nodes["compute-30"] == ("DOWN", "hpcai: no such instance")


def test_a_reservation_holds_new_jobs_until_spare_nodes_are_down(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, hold=True)
    assert (answer["changed"], answer["set_down"], answer["drained"]) == (True, [], [])
    assert slurmctld.updates == [
        ("create", "reservation", "ReservationName=hpcai-new-nodes", "Duration=5", "StartTime=now", "Nodes=ALL",
         "Users=root", "Flags=MAINT,IGNORE_JOBS"),
    ]  # fmt: skip
    # A reservation left behind by an interrupted run is extended.
    run_module(slurm_nodes.main, hold=True)
    assert slurmctld.updates[1:] == [("update", "ReservationName=hpcai-new-nodes", "EndTime=now+5minutes")]
    slurmctld.nodes["compute-30"] = ("IDLE+CLOUD", "")
    del slurmctld.updates[:]
    assert run_module(slurm_nodes.main, absent=["compute-30"])["changed"] is True
    assert slurmctld.updates == [
        ("NodeName=compute-30", "State=DOWN", "Reason=hpcai: no such instance"),
        ("delete", "ReservationName=hpcai-new-nodes"),
    ]
    assert run_module(slurm_nodes.main, absent=[])["changed"] is False


def test_the_reservation_ends_even_without_spare_nodes(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.held = True
    assert run_module(slurm_nodes.main, keep_out=[])["changed"] is False
    assert slurmctld.held
    assert run_module(slurm_nodes.main, absent=[])["changed"] is True
    assert not slurmctld.held


def test_hold_does_nothing_if_slurmctld_is_down(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.down = True
    assert run_module(slurm_nodes.main, hold=True)["changed"] is False


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


def test_check_mode_predicts_the_reservation(slurmctld: Slurmctld, run_module: RunModule) -> None:
    assert run_module(slurm_nodes.main, check_mode=True, hold=True)["changed"] is True
    assert slurmctld.updates == []


def test_hold_excludes_other_options(slurmctld: Slurmctld, run_module: RunModule) -> None:
    answer = run_module(slurm_nodes.main, hold=True, absent=["compute-18"])
    assert "hold excludes absent" in answer["msg"]
    assert slurmctld.updates == []
