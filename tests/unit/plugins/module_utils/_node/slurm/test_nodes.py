# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes: their records, and which are drained and resumed."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import job_control, node_queries, nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import observed
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import encode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState, Plan

from .arbiter.playing import LOST, report

FORGED = encode(report(LOST))
HEAD = "NodeName=gpu-0 CPUTot=96 NodeAddr=10.0.0.4 NodeHostName=gpu-0  State=IDLE ThreadsPerCore=1   BootTime=None"
GIVEN = "[root@2026-11-21T11:05:53]"
HOSTILE = [
    "x State=DOWN+DRAIN NodeAddr=6.6.6.6 NodeHostName=evil",
    "x --State=DRAIN -- $(reboot) `id`",
    "quotes \" ' and, commas, NodeName=gpu-1",
    "x [root@2020-01-01T00:00:00] Comment=y",
]


@pytest.mark.parametrize("state", ["DRAIN", "drained", "draining*", "down~", "fail", "failing"])
def test_a_state_of_sinfo_says_that_a_node_is_out(state: str) -> None:
    assert nodes.is_out(state)


@pytest.mark.parametrize("state", ["idle*", "mixed", "powering_down", "powered_down~", "DOWNTOWN"])
def test_a_state_of_sinfo_says_that_a_node_is_not_out(state: str) -> None:
    assert not nodes.is_out(state)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["Comment", "Extra", "Reason"])
def test_no_free_text_changes_a_field(text: str, field: str) -> None:
    given = f" {GIVEN}" if field == "Reason" else ""
    parsed = nodes.parse_nodes(f"{HEAD} {field}={text}{given}\n")
    assert list(parsed) == ["gpu-0"]
    found = parsed["gpu-0"]
    assert (found.name, found.states, found.address, found.host_name) == ("gpu-0", ("IDLE",), "10.0.0.4", "gpu-0")


@pytest.mark.parametrize("text", [f"x Extra={FORGED}", f"x {GIVEN} Extra={FORGED}", f"x Comment={FORGED}"])
def test_a_reason_cannot_forge_a_report(text: str) -> None:
    """Reasons contain messages of health checks, with names that users chose: processes, files, mounts."""
    shown = f"{HEAD} Reason={text} [root@2026-11-22T10:00:00]\n"
    assert (observed.parse_nodes(shown)["gpu-0"].report, observed.parse_nodes(shown)["gpu-0"].problem) == (
        None,
        "it has not reported",
    )
    answer = Result((), 0, shown, "")
    assert node_queries.query_text("gpu-0", "Extra", ["ctl"], lambda command: answer) == ""


def test_a_reason_from_slurm_conf_cannot_hide_a_report() -> None:
    assert observed.parse_nodes(f"{HEAD} Reason=bad fan Extra={FORGED}\n")["gpu-0"].report == report(LOST)


def test_a_line_break_in_a_comment_cannot_forge_another_node() -> None:
    other = HEAD.replace("gpu-0", "gpu-1")
    forged = "NodeName=gpu-1 State=IDLE+DRAIN Reason=hpcai: site: x [root@2026-11-22T10:00:00]"
    for shown in (f"{HEAD} Comment=x\n{forged}\n{other}\n", f"{other}\n{HEAD} Comment=x\n{forged}\n"):
        found = nodes.parse_nodes(shown)
        assert found["gpu-0"].states == ("IDLE",)
        assert found["gpu-1"] == NodeState("gpu-1", ("UNKNOWN", "DRAIN"), nodes.TWICE)
        made = nodes.plan(found, [], ["gpu-1"], "hpcai: site:")
        assert (made.drain, made.resume, made.left_out) == ((), (), {"gpu-1": nodes.TWICE})
        assert observed.parse_nodes(shown)["gpu-1"].problem == nodes.TWICE


def test_another_reservation_does_not_count_as_ours() -> None:
    shown = "ReservationName=a ReservationName=hpcai-new-nodes StartTime=2026-11-24T11:11:15\n"
    assert not job_control.is_held(lambda command: Result(tuple(command), 0, shown, ""))
    ours = "ReservationName=hpcai-new-nodes StartTime=2026-11-24T11:11:15\n"
    assert job_control.is_held(lambda command: Result(tuple(command), 0, ours, ""))


RECORDED = pathlib.Path(__file__).parent / "recorded"
OURS = "hpcai: site:"


def shown(version: str) -> str:
    """What a release of Slurm printed."""
    return (RECORDED / f"scontrol-{version}-show-nodes.txt").read_text(encoding="utf-8")


def node(
    name: str, states: str, reason: str = "", address: str = "", host_name: str = "", started: str = ""
) -> NodeState:
    """A node in the states 'A+B'."""
    return NodeState(name, tuple(states.split("+")), reason, address, host_name, started)


def plan_for(*known: NodeState, keep_out: Sequence[str] = (), put_to_work: Sequence[str] = ()) -> Plan:
    """The plan for these nodes."""
    return nodes.plan({state.name: state for state in known}, keep_out, put_to_work, OURS)


class Slurmctld:
    """A fake slurmctld that gives one answer, and records the commands."""

    def __init__(self, rc: int = 0, stdout: str = "", stderr: str = "") -> None:
        self.answer = rc, stdout, stderr
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(list(command))
        return Result(tuple(command), *self.answer)


def test_the_output_of_22_05_is_parsed() -> None:
    assert nodes.parse_nodes(shown("22.05.8")) == {
        "broken": node("broken", "DOWN+NOT_RESPONDING", "bad fan", "127.0.0.12", "broken", "None"),
        "compute-0": node(
            "compute-0",
            "UNKNOWN+DRAIN+NOT_RESPONDING",
            "hpcai: site: could not be configured",
            "127.0.0.2",
            "compute-0",
            "None",
        ),
        "compute-17": node(
            "compute-17",
            "UNKNOWN+DRAIN+NOT_RESPONDING",
            "bad fan [ticket 4711] ask bob@lab",
            "127.0.0.4",
            "compute-17",
            "None",
        ),
        "plain": node("plain", "UNKNOWN+NOT_RESPONDING", "", "127.0.0.15", "plain", "None"),
        "resv": node(
            "resv", "UNKNOWN+DRAIN+MAINTENANCE+RESERVED+NOT_RESPONDING", "hpcai: site: x", "127.0.0.16", "resv", "None"
        ),
        "undrained": node("undrained", "UNKNOWN+DRAIN+NOT_RESPONDING", "line one", "127.0.0.14", "undrained", "None"),
    }


def test_the_output_of_25_05_is_parsed() -> None:
    assert nodes.parse_nodes(shown("25.05")) == {
        "compute-0": node("compute-0", "ALLOCATED", "", "10.77.0.4", "compute000000", "2026-11-21T09:01:00"),
        "compute-3": node(
            "compute-3",
            "IDLE+DRAIN",
            "hpcai: site: could not be configured",
            "10.77.0.5",
            "compute000003",
            "2026-11-21T09:01:00",
        ),
        "compute-17": node("compute-17", "MIXED+CLOUD", "", "10.77.0.6", "compute00000H", "2026-11-21T09:01:00"),
        "compute-18": node(
            "compute-18",
            "DOWN+DRAIN+RESERVED+NOT_RESPONDING",
            "bad fan",
            "10.77.0.7",
            "compute00000I",
            "2026-11-21T09:01:00",
        ),
        "compute-19": node("compute-19", "DOWN+NOT_RESPONDING", "Not responding", "10.77.0.8", "compute00000J", "None"),
    }


@pytest.mark.parametrize(
    ("state", "states"),
    [
        ("DOWN*", ("DOWN", "NOT_RESPONDING")),
        ("IDLE*+DRAIN", ("IDLE", "NOT_RESPONDING", "DRAIN")),
        ("idle+cloud", ("IDLE", "CLOUD")),
    ],
)
def test_the_star_of_older_releases_means_not_responding(state: str, states: tuple[str, ...]) -> None:
    assert nodes.parse_nodes(f"NodeName=a CPUTot=1 State={state} ThreadsPerCore=1 \n")["a"].states == states


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("Reason=see [bob@lab] first [root@2026-11-21T11:05:53]", "see [bob@lab] first"),
        ("Reason=no time known [root@Unknown]", "no time known"),
        ("Reason=from slurm.conf Extra=rack 4", "from slurm.conf"),
        ("Reason=from slurm.conf InstanceId=7", "from slurm.conf"),
        ("Reason=from slurm.conf", "from slurm.conf"),
        ("Reason=a Comment= b [root@2026-11-21T11:05:53] ReservationName=r", "a"),
    ],
)
def test_a_reason_ends_where_slurm_ends_it(printed: str, reason: str) -> None:
    assert nodes.parse_nodes(f"NodeName=a State=IDLE+DRAIN AveWatts=0 {printed}\n")["a"].reason == reason


def test_lines_that_are_no_node_are_ignored() -> None:
    assert nodes.parse_nodes("No nodes in the system\n\nNodeName=half\n State=IDLE\n") == {}


@pytest.mark.parametrize(
    "states", ["IDLE+DRAIN", "ALLOCATED+DRAIN", "DRAINED", "DRAINING", "DOWN", "IDLE+FAIL", "FAILING"]
)
def test_these_states_are_out_of_scheduling(states: str) -> None:
    assert node("a", states).out


@pytest.mark.parametrize(
    "states", ["IDLE", "MIXED+CLOUD", "ALLOCATED", "IDLE+CLOUD+POWERED_DOWN", "IDLE+NOT_RESPONDING"]
)
def test_these_states_are_in_scheduling(states: str) -> None:
    assert not node("a", states).out


@pytest.mark.parametrize(
    ("states", "answers"),
    [
        ("IDLE", True),
        ("DOWN+DRAIN", True),
        ("IDLE+NOT_RESPONDING", False),
        ("UNKNOWN", False),
        ("UNKNOWN+DRAIN", False),
    ],
)
def test_a_node_answers_once_it_registered_and_responds(states: str, answers: bool) -> None:
    assert node("a", states).answers is answers


@pytest.mark.parametrize("states", ["IDLE", "ALLOCATED", "MIXED+CLOUD", "UNKNOWN+NOT_RESPONDING"])
def test_a_node_that_takes_jobs_is_drained(states: str) -> None:
    assert plan_for(node("a", states), keep_out=["a"]) == Plan(("a",), (), {}, ())


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "Not responding",
        "Node unexpectedly rebooted",
        "ResumeTimeout reached [powered down]",
        "hpcai: site: earlier",
    ],
)
def test_a_node_that_nobody_set_down_is_drained(reason: str) -> None:
    assert plan_for(node("a", "DOWN+NOT_RESPONDING", reason), keep_out=["a"]).drain == ("a",)


@pytest.mark.parametrize("states", ["IDLE+DRAIN", "ALLOCATED+DRAIN", "DRAINED", "DOWN", "DOWN+NOT_RESPONDING", "FAIL"])
def test_a_node_that_somebody_else_drained_is_left_alone(states: str) -> None:
    made = plan_for(node("a", states, "bad fan"), keep_out=["a"])
    assert made == Plan((), (), {}, ())


def test_a_node_that_we_drained_is_not_drained_again() -> None:
    assert plan_for(node("a", "IDLE+DRAIN", "hpcai: site: x"), keep_out=["a"]).drain == ()


@pytest.mark.parametrize("states", ["IDLE+DRAIN", "DOWN+DRAIN", "DRAINED", "DOWN"])
def test_a_node_that_is_out_for_our_reason_is_resumed(states: str) -> None:
    made = plan_for(node("a", states, "hpcai: site: could not be configured"), put_to_work=["a"])
    assert made == Plan((), ("a",), {}, ())


@pytest.mark.parametrize("reason", ["bad fan", "", "hpcai: health: gpu_count", "not hpcai: site: x"])
def test_a_node_that_is_drained_for_another_reason_is_never_resumed(reason: str) -> None:
    made = plan_for(node("a", "IDLE+DRAIN", reason), put_to_work=["a"])
    assert made == Plan((), (), {"a": reason}, ())


def test_a_node_that_is_down_for_not_responding_is_waited_for() -> None:
    made = plan_for(node("a", "DOWN+NOT_RESPONDING", "Not responding"), put_to_work=["a"])
    assert made == Plan((), (), {}, ())


def test_a_node_that_is_down_but_answers_is_named_with_its_reason() -> None:
    assert plan_for(node("a", "DOWN", "bad fan"), put_to_work=["a"]).left_out == {"a": "bad fan"}


def test_a_node_at_work_is_left_alone() -> None:
    assert plan_for(node("a", "MIXED"), put_to_work=["a"]) == Plan((), (), {}, ())


def test_nodes_that_slurmctld_does_not_know_are_named() -> None:
    made = plan_for(node("a", "IDLE"), keep_out=["x", "a"], put_to_work=["y"])
    assert made.missing == ("x", "y")
    assert made.drain == ("a",)


def test_any_number_of_nodes_is_drained_by_one_command() -> None:
    slurmctld = Slurmctld()
    nodes.drain([f"compute-{number}" for number in range(600)], "hpcai: site: x", slurmctld)
    assert slurmctld.commands == [
        ["scontrol", "update", "NodeName=compute-[0-599]", "State=DRAIN", "Reason=hpcai: site: x"]
    ]


def test_any_number_of_nodes_is_resumed_by_one_command() -> None:
    slurmctld = Slurmctld()
    nodes.resume([f"compute-{number}" for number in range(600)], slurmctld)
    assert slurmctld.commands == [["scontrol", "update", "NodeName=compute-[0-599]", "State=RESUME"]]


def test_without_nodes_no_command_is_run() -> None:
    slurmctld = Slurmctld()
    nodes.drain([], "hpcai: site: x", slurmctld)
    nodes.resume([], slurmctld)
    assert slurmctld.commands == []


def test_all_nodes_are_read_with_one_line_each() -> None:
    slurmctld = Slurmctld(stdout=shown("25.05"))
    assert len(nodes.read_nodes(slurmctld)) == 5
    assert slurmctld.commands == [["scontrol", "--oneliner", "show", "nodes"]]


def test_a_refusal_is_reported_with_slurms_message() -> None:
    slurmctld = Slurmctld(rc=1, stderr="slurm_update error: Invalid node name specified\n")
    with pytest.raises(CommandFailed, match="Invalid node name specified"):
        nodes.drain(["a"], "hpcai: site: x", slurmctld)
    with pytest.raises(CommandFailed, match="Invalid node name specified"):
        nodes.resume(["a"], slurmctld)
    with pytest.raises(CommandFailed, match="'scontrol --oneliner show nodes' failed"):
        nodes.read_nodes(slurmctld)


def test_a_drained_node_that_does_not_answer_is_named_with_its_reason_too() -> None:
    made = plan_for(node("a", "IDLE+DRAIN+NOT_RESPONDING", "bad fan"), put_to_work=["a"])
    assert made.left_out == {"a": "bad fan"}


LACKS = "hpcai: hardware: RealMemory is 1900, configured 1945"


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ("IDLE", ""),
        ("DOWN", ""),
        ("DOWN+NOT_RESPONDING", "Not responding"),
        ("IDLE+DRAIN", "hpcai: site: could not be configured"),
        ("IDLE+DRAIN", "hpcai: hardware: RealMemory is 1800, configured 1945"),
        ("IDLE+DRAIN", "hpcai: slurmd: job_container.conf changed"),
        # What slurmctld gives when the node registers.
        ("IDLE+DRAIN", "Low socket*core*thread count, Low CPUs"),
        ("IDLE+DRAIN", "Low CPUs"),
        ("IDLE+DRAIN", "Low RealMemory (reported:1900 < 100.00% of configured:1945)"),
        ("IDLE+DRAIN", "Low TmpDisk"),
        ("IDLE+DRAIN", "gres/gpu count reported lower than configured (7 < 8)"),
        # A node that is only down would return to scheduling when it registers.
        ("DOWN", LACKS),
    ],
)
def test_a_node_that_lacks_something_is_drained_with_that_reason(states: str, reason: str) -> None:
    known = {name: node(name, states, reason) for name in ("a", "b")}
    judged = {"a": LACKS, "b": LACKS}
    assert nodes.plan(known, [], ["a", "b"], OURS, judged) == Plan((), (), {}, (), {LACKS: ("a", "b")})


def test_a_node_that_is_drained_for_what_it_lacks_is_not_drained_again() -> None:
    assert nodes.plan({"a": node("a", "IDLE+DRAIN", LACKS)}, [], ["a"], OURS, {"a": LACKS}) == Plan((), (), {}, ())


def test_a_persons_reason_is_kept_whatever_the_node_lacks() -> None:
    made = nodes.plan({"a": node("a", "IDLE+DRAIN", "bad fan")}, [], ["a"], OURS, {"a": LACKS})
    assert made == Plan((), (), {"a": "bad fan"}, ())


# The reason is not compared with anything: a node that matches slurm.conf is resumed whatever figures it contains.
@pytest.mark.parametrize("reason", ["hpcai: hardware: RealMemory is 9, configured 99999", "hpcai: slurmd: x"])
def test_a_node_that_lacks_nothing_any_more_is_resumed_if_it_was_checked(reason: str) -> None:
    known = {"a": node("a", "IDLE+DRAIN", reason)}
    assert nodes.plan(known, [], ["a"], OURS, {"a": None}) == Plan((), ("a",), {}, ())
    assert nodes.plan(known, [], ["a"], OURS, {}) == Plan((), (), {"a": reason}, ())


def test_a_time_of_slurm_is_in_utc_and_other_text_is_none() -> None:
    # A user's free text may look like a time.
    printed = ("1970-01-02T00:00:01", "Unknown", "None", "", "2026-13-45T00:00:00")
    assert [nodes.epoch(text) for text in printed] == [86401.0, None, None, None, None]
