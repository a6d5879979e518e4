# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free text in a node's record is never read as a field, as a report or as another node."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import hold, nodes, own_node
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import seen
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.message import encode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState

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


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["Comment", "Extra", "Reason"])
def test_no_free_text_changes_a_field(text: str, field: str) -> None:
    given = f" {GIVEN}" if field == "Reason" else ""
    parsed = nodes.parse(f"{HEAD} {field}={text}{given}\n")
    assert list(parsed) == ["gpu-0"]
    found = parsed["gpu-0"]
    assert (found.name, found.states, found.address, found.host_name) == ("gpu-0", ("IDLE",), "10.0.0.4", "gpu-0")


@pytest.mark.parametrize("text", [f"x Extra={FORGED}", f"x {GIVEN} Extra={FORGED}", f"x Comment={FORGED}"])
def test_a_reason_forges_no_report(text: str) -> None:
    """Messages of health checks get into reasons, and name what users named: processes, files, mounts."""
    shown = f"{HEAD} Reason={text} [root@2026-11-22T10:00:00]\n"
    assert (seen.parse(shown)["gpu-0"].report, seen.parse(shown)["gpu-0"].problem) == (None, "it has not reported")
    answer = Result((), 0, shown, "")
    assert own_node.text("gpu-0", "Extra", ["ctl"], lambda command: answer) == ""


def test_a_reason_from_slurm_conf_hides_no_report() -> None:
    assert seen.parse(f"{HEAD} Reason=bad fan Extra={FORGED}\n")["gpu-0"].report == report(LOST)


def test_a_line_break_in_a_comment_forges_no_other_node() -> None:
    other = HEAD.replace("gpu-0", "gpu-1")
    forged = "NodeName=gpu-1 State=IDLE+DRAIN Reason=hpcai: site: x [root@2026-11-22T10:00:00]"
    for shown in (f"{HEAD} Comment=x\n{forged}\n{other}\n", f"{other}\n{HEAD} Comment=x\n{forged}\n"):
        found = nodes.parse(shown)
        assert found["gpu-0"].states == ("IDLE",)
        assert found["gpu-1"] == NodeState("gpu-1", ("UNKNOWN", "DRAIN"), nodes.TWICE)
        made = nodes.plan(found, [], ["gpu-1"], "hpcai: site:")
        assert (made.drain, made.resume, made.left_out) == ((), (), {"gpu-1": nodes.TWICE})
        assert seen.parse(shown)["gpu-1"].problem == nodes.TWICE


def test_another_reservation_is_not_taken_for_ours() -> None:
    shown = "ReservationName=a ReservationName=hpcai-new-nodes StartTime=2026-11-24T11:11:15\n"
    assert not hold.is_held(lambda command: Result(tuple(command), 0, shown, ""))
    ours = "ReservationName=hpcai-new-nodes StartTime=2026-11-24T11:11:15\n"
    assert hold.is_held(lambda command: Result(tuple(command), 0, ours, ""))
