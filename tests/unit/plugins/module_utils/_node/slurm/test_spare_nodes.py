# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Spare nodes, which have no machine yet: which are set down, and which machines slurmctld forgets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState, Plan

OURS = "hpcai: site:"


class Slurmctld:
    """A fake slurmctld that refuses commands with some word, and records all."""

    def __init__(self, refused: str = "nothing") -> None:
        self.refused = refused
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(list(command))
        refused = self.refused in command
        return Result(tuple(command), int(refused), "", f"slurm_update error: {self.refused}\n" if refused else "")


def spare(states: str, reason: str = "", address: str = nodes.PLACEHOLDER_ADDRESS) -> NodeState:
    """The spare node compute-18."""
    return NodeState("compute-18", tuple(states.split("+")), reason, address)


def test_a_spare_node_that_would_get_jobs_is_set_down() -> None:
    for states in ("IDLE+CLOUD", "ALLOCATED+CLOUD", "UNKNOWN+CLOUD"):
        assert nodes.absent_to_set_down({"compute-18": spare(states)}, ["compute-18"]) == ("compute-18",)


def test_a_spare_node_whose_machine_was_deleted_is_no_faulty_node() -> None:
    """It joined alone, and was deleted before Ansible had seen it."""
    lost = spare("DOWN+CLOUD+NOT_RESPONDING", "Not responding [slurm@2026-11-27T09:00:00]", address="10.0.0.9")
    assert nodes.absent_to_set_down({"compute-18": lost}, ["compute-18"]) == ("compute-18",)


@pytest.mark.parametrize(
    "known",
    [
        spare("DOWN+CLOUD", nodes.NO_INSTANCE),
        spare("IDLE+CLOUD+DRAIN", "bad fan"),
        spare("IDLE+CLOUD", address="10.0.0.9"),
        spare("MIXED+CLOUD", address="10.0.0.9"),
        spare("IDLE+CLOUD+NOT_RESPONDING", address="10.0.0.9"),
        spare("DOWN+CLOUD", "bad fan", address="10.0.0.9"),
        spare("DOWN+CLOUD+DRAIN+NOT_RESPONDING", "Not responding", address="10.0.0.9"),
    ],
)
def test_a_spare_node_that_is_out_or_has_an_address_is_left_alone(known: NodeState) -> None:
    assert nodes.absent_to_set_down({"compute-18": known}, ["compute-18", "compute-99"]) == ()


def test_a_spare_node_whose_machine_was_retired_is_forgotten() -> None:
    """It joined alone, and was retired before a run of site.yml."""
    known = {
        "compute-1": spare("DOWN+CLOUD+DRAIN", "hpcai: retire: its instance will be deleted", address="10.0.0.9"),
        "compute-2": spare("IDLE+CLOUD+DRAIN", "bad fan", address="10.0.0.9"),
        "compute-3": spare("DOWN+CLOUD+DRAIN", "hpcai: retire: x"),
        "compute-4": spare("IDLE+CLOUD", address="10.0.0.9"),
    }
    assert nodes.retired(known, [*known, "compute-99"]) == ("compute-1",)
    assert nodes.absent_to_set_down(known, known) == ()


def test_a_spare_node_that_is_down_counts_as_not_answering() -> None:
    known = spare("DOWN+CLOUD", nodes.NO_INSTANCE)
    assert not known.answers
    # A node that site.yml resumes registers later, so it is not left out.
    assert nodes.plan({"compute-18": known}, [], ["compute-18"], OURS) == Plan((), (), {}, ())


def test_an_unreachable_machine_with_a_former_spare_name_is_drained() -> None:
    known = {"compute-18": spare("DOWN+CLOUD", nodes.NO_INSTANCE)}
    assert nodes.plan(known, ["compute-18"], [], OURS).drain == ("compute-18",)


def test_nodes_are_set_down_by_one_command() -> None:
    slurmctld = Slurmctld()
    nodes.set_down([f"compute-{number}" for number in range(18, 50)], nodes.NO_INSTANCE, slurmctld)
    nodes.set_down([], nodes.NO_INSTANCE, slurmctld)
    assert slurmctld.commands == [
        ["scontrol", "update", "NodeName=compute-[18-49]", "State=DOWN", "Reason=hpcai: no such instance"]
    ]


def test_a_declared_node_that_becomes_a_spare_has_a_former_machine() -> None:
    known = {"compute-1": spare("IDLE+DRAIN", "hpcai: retire: x"), "compute-5": spare("IDLE+CLOUD")}
    assert nodes.former(known, ["compute-1", "compute-5", "compute-9"]) == ("compute-1",)


def test_former_machines_are_forgotten_although_undrain_reports_an_error() -> None:
    slurmctld = Slurmctld(refused="State=UNDRAIN")
    nodes.forget_machines(["compute-1", "compute-2"], slurmctld)
    assert slurmctld.commands == [
        ["scontrol", "update", "NodeName=compute-[1-2]", "State=UNDRAIN"],
        ["scontrol", "update", "NodeName=compute-[1-2]", "State=DOWN", "Reason=hpcai: no such instance"],
        ["scontrol", "update", "NodeName=compute-[1-2]", "NodeAddr=127.0.0.1,127.0.0.1", "NodeHostName=compute-[1-2]"],
    ]


@pytest.mark.parametrize("refused", ["State=DOWN", "NodeHostName=compute-1"])
def test_a_refusal_to_forget_a_machine_is_reported(refused: str) -> None:
    with pytest.raises(CommandFailed, match=refused):
        nodes.forget_machines(["compute-1"], Slurmctld(refused))


def test_without_former_machines_no_command_is_run() -> None:
    slurmctld = Slurmctld()
    nodes.forget_machines([], slurmctld)
    assert slurmctld.commands == []
