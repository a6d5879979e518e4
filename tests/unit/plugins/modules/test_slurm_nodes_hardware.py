# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_nodes: nodes with less hardware than slurm.conf declares, and nodes that have it again."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

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


def test_drains_a_node_that_lacks_memory_with_the_figures(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    reason = "hpcai: hardware: RealMemory is 1900, configured 1945"
    readings = {
        "compute-0": reading(RealMemory=1900),
        "compute-3": reading(RealMemory=1900),
        "compute-18": reading(CPUs=64),
    }
    arguments = {"put_to_work": ["compute-0", "compute-3", "compute-18"], "seen": readings, "conf": conf}
    assert run_module(slurm_nodes.main, check_mode=True, **arguments)["unfit"] == {
        "compute-0": reason,
        "compute-3": reason,
    }
    assert slurmctld.updates == []
    answer = run_module(slurm_nodes.main, **arguments)
    assert (answer["changed"], answer["resumed"]) == (True, [])
    assert answer["unfit"] == {"compute-0": reason, "compute-3": reason}
    assert slurmctld.updates == [("NodeName=compute-[0,3]", "State=DRAIN", f"Reason={reason}")]
    assert f"compute-0: DRAIN {reason}\n" in answer["diff"]["after"]
    again = run_module(slurm_nodes.main, **arguments)
    assert (again["changed"], again["unfit"]) == (False, answer["unfit"])


def test_resumes_a_node_whose_hardware_is_complete_again(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    slurmctld.nodes["compute-0"] = ("IDLE+DRAIN", "hpcai: hardware: RealMemory is 1900, configured 1945")
    arguments: dict[str, Any] = {"put_to_work": ["compute-0"], "conf": conf}
    # Not measured, or not measurable: the reason stays.
    unseen: list[dict[str, Any]] = [{}, {"compute-0": {}}, {"compute-0": {"hardware": {}}}]
    for readings in unseen:
        assert run_module(slurm_nodes.main, seen=readings, **arguments)["resumed"] == []
    answer = run_module(slurm_nodes.main, seen={"compute-0": reading()}, **arguments)
    assert (answer["resumed"], answer["unfit"]) == (["compute-0"], {})


def test_takes_the_expected_figures_from_slurm_conf_not_from_the_reason(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    slurmctld.nodes["compute-0"] = (
        "IDLE+DRAIN",
        "hpcai: hardware: RealMemory=9 is 9 RealMemory is 9, configured 99999",
    )
    answer = run_module(slurm_nodes.main, put_to_work=["compute-0"], seen={"compute-0": reading()}, conf=conf)
    assert answer["resumed"] == ["compute-0"]


def test_replaces_slurmctlds_own_reason_but_not_an_operators(
    slurmctld: Slurmctld, run_module: RunModule, conf: str
) -> None:
    slurmctld.nodes["compute-0"] = ("IDLE+DRAIN", "Low RealMemory (reported:1900 < 100.00% of configured:1945)")
    less = reading(RealMemory=1900)
    readings = {"compute-0": less, "compute-17": less}
    answer = run_module(slurm_nodes.main, put_to_work=["compute-0", "compute-17"], seen=readings, conf=conf)
    assert sorted(answer["unfit"]) == ["compute-0", "compute-17"]
    assert answer["left_out"] == {"compute-17": "bad fan, ticket 4711"}
    assert [words[0] for words in slurmctld.updates] == ["NodeName=compute-0"]
