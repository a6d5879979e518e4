# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""health_pairs.yml finds the node that slows down or breaks a run, with real srun and PMIx. It drains no node.

The program is a stand-in for nccl-tests' all_reduce_perf.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.node import Node

SOURCE = REPOSITORY / "tests/stand_ins/nccl_tests/all_reduce_perf.py"
PROGRAM = "/usr/local/bin/all_reduce_perf"
STATE = "/etc/nccl-stand-in"
Search = Callable[..., Recap]


@pytest.fixture(scope="module")
def computes(node: Callable[[str], Node]) -> Iterator[list[Node]]:
    """Both nodes, with the stand-in program."""
    nodes = [node("0"), node("3")]
    for one in nodes:
        one.write(PROGRAM, b"#!/usr/bin/python3\n" + SOURCE.read_bytes(), "0755")
    yield nodes
    for one in nodes:
        one.sh(f"rm -f {PROGRAM} {STATE}")


@pytest.fixture
def search(
    azure: Cluster, inventory_source: Path, computes: list[Node], eventually: Callable[..., float]
) -> Iterator[Search]:
    """Run the playbook on both nodes as soon as they are idle, because it skips busy nodes."""

    def run(**variables: object) -> Recap:
        for one in computes:
            eventually(lambda one=one: one.state() == "idle", 60, one.state)
        given = {
            "hpcai_pairs": "compute-[0,3]",
            "hpcai_pairs_gpus": 2,
            "hpcai_pairs_limit": 180,
            "hpcai_pairs_program": PROGRAM,
            **variables,
        }
        return azure.playbook("playbooks/health_pairs.yml", inventory_source, "-e", json.dumps(given))

    yield run
    for one in computes:
        one.sh(f"rm -f {STATE}")


def test_a_good_pair_passes(search: Search) -> None:
    done = search()
    assert done.rc == 0, done.output
    assert "232.8" in done.output


def test_a_slow_node_is_found_with_a_known_good_node(search: Search, computes: list[Node]) -> None:
    computes[1].sh(f"echo slow > {STATE}")
    done = search(hpcai_pairs="compute-3", hpcai_pairs_known_good=["compute-0"])
    assert done.rc != 0
    assert "compute-3" in done.output.partition("Report what was found")[2]
    assert "11.5 GB/s, but should be at least 180" in done.output


@pytest.mark.parametrize(
    ("state", "words"),
    [("wrong", "128 wrong values"), pytest.param("dies", "unhandled system error", marks=pytest.mark.thorough)],
)
def test_a_run_with_wrong_values_or_an_error_fails(
    search: Search, computes: list[Node], state: str, words: str
) -> None:
    computes[0].sh(f"echo {state} > {STATE}")
    done = search()
    assert done.rc != 0
    assert words in done.output


@pytest.mark.thorough
def test_a_run_that_slurm_refuses_blames_no_node(search: Search) -> None:
    done = search(hpcai_pairs_srun=["--mpi=nosuch"])
    assert done.rc != 0
    assert "compute-[0,3]: unknown, " in done.output
