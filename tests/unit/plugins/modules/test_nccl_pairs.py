# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_pairs on a fake cluster: it finds the slow node, and does not use nodes with jobs."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand
from ansible_collections.hpcai.azure.plugins.modules import nccl_pairs

RunModule = Callable[..., dict[str, Any]]
OUTPUT = """# nThread 1 nGpus 1 minBytes 8589934592 maxBytes 8589934592 step: 1048576(bytes) warmup iters: 5 iters: 20
  8589934592    2147483648     float     sum      -1   91850   93.52  {rate}  0   91790   93.58  {rate}  0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : {rate}
"""
SIZE = "Standard_ND96asr_v4"


class Slurm:
    """Six nodes. The third is slow, and the sixth runs a job."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.answers = True

    def run(self, command: Sequence[str], timeout_s: float = 120) -> Result:
        """Replace the command runner."""
        words = tuple(command)
        if not self.answers:
            return Result(words, 1, "", "Unable to contact slurm controller")
        if words[0] == "squeue":
            return Result(words, 0, "4711|alice|RUNNING|n-5\n", "")
        if words[0] == "scontrol":
            states = {f"n-{number}": "MIXED" if number == 5 else "IDLE" for number in range(6)}
            return Result(
                words, 0, "".join(f"NodeName={n} CPUTot=1 State={s} Weight=1\n" for n, s in states.items()), ""
            )
        self.commands.append(words)
        group = expand(next(word for word in words if word.startswith("--nodelist=")).partition("=")[2])
        return Result(words, 0, OUTPUT.format(rate=61.2 if "n-2" in group else 187.3), "")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """The fake cluster."""
    played = Slurm()
    monkeypatch.setattr(nccl_pairs, "run", played.run)
    return played


def test_finds_the_slow_node_and_omits_nodes_with_jobs(slurm: Slurm, run_module: RunModule) -> None:
    done = run_module(nccl_pairs.main, nodes=["n-[0-5]"], vm_size=SIZE)
    assert (done["changed"], done["bad"]) == (False, ["n-2"])
    assert done["left_out"] == {"n-5": "jobs run there: 4711 (alice, running)"}
    assert sorted(done["good"]) == ["n-0", "n-1", "n-3", "n-4"]
    assert done["limit"] == 175
    assert done["words"] == "n-2 fails with each node tried"
    assert "n-[0-1]: pass, 187.3 GB/s" in done["lines"]
    assert "n-[2-3]: fail, 61.2 GB/s, but should be at least 175" in done["lines"]
    assert not any("n-5" in word for command in slurm.commands for word in command)
    assert all("--ntasks-per-node=8" in command for command in slurm.commands)


def test_the_known_limit_applies_only_to_its_message_size(slurm: Slurm, run_module: RunModule) -> None:
    done = run_module(nccl_pairs.main, nodes=["n-[0-3]"], vm_size=SIZE, size="1G")
    assert (done["limit"], done["bad"]) == (None, [])
    assert run_module(nccl_pairs.main, nodes=["n-[0-3]"], gpus=4, size="1G", limit=100)["bad"] == ["n-2"]


def test_check_mode_runs_nothing(slurm: Slurm, run_module: RunModule) -> None:
    done = run_module(nccl_pairs.main, check_mode=True, nodes=["n-[0-5]"], vm_size=SIZE)
    assert slurm.commands == []
    assert done["words"] == "5 nodes would be measured"
    assert list(done["left_out"]) == ["n-5"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": ["n-0", "n-5"], "vm_size": SIZE}, "fewer than two nodes can be measured. n-5: jobs run there: 4711"),
        ({"nodes": ["n-[0-1]"]}, "the number of GPUs per node is unknown"),
        ({"nodes": ["n-[0-1]"], "vm_size": "Standard_ND95asr_v4"}, "is not known; the nearest known sizes are"),
        ({"nodes": ["n-[0-1]"], "vm_size": SIZE, "size": "large"}, "is not a message size"),
        ({"nodes": ["n-[0-"], "vm_size": SIZE}, "malformed"),
        ({"nodes": ["n-[0-1]"], "vm_size": SIZE, "gpus": 0}, "the number of GPUs per node is unknown"),
        ({"nodes": ["n-[0-1]"], "vm_size": SIZE, "limit": 0}, "limit is 0.0: give GB/s above 0"),
        ({"nodes": ["n-[0-1]"], "vm_size": SIZE, "limit": float("nan")}, "limit is nan: give GB/s above 0"),
    ],
)
def test_fails_before_it_measures_if_it_cannot(
    slurm: Slurm, run_module: RunModule, options: dict[str, Any], words: str
) -> None:
    done = run_module(nccl_pairs.main, **options)
    assert done["_exit"] == 1
    assert words in done["msg"]
    assert slurm.commands == []


def test_fails_if_slurmctld_does_not_answer(slurm: Slurm, run_module: RunModule) -> None:
    slurm.answers = False
    assert "Unable to contact slurm controller" in run_module(nccl_pairs.main, nodes=["n-[0-1]"], vm_size=SIZE)["msg"]


def test_the_action_can_read_how_far_it_is(
    slurm: Slurm, run_module: RunModule, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "progress"
    seen: list[str] = []

    def watching(command: Sequence[str], timeout_s: float = 120) -> Result:
        if folder.exists():
            seen.append((folder / "progress").read_text(encoding="utf-8"))
        return slurm.run(command, timeout_s)

    monkeypatch.setattr(nccl_pairs, "run", watching)
    done = run_module(nccl_pairs.main, nodes=["n-[0-3]"], vm_size=SIZE, progress=str(folder))
    assert done["bad"] == ["n-2"]
    assert seen[0] == "round 1: pair 0 of 2 done\n"
    assert not folder.exists()
