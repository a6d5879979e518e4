# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job script of the guide to checkpoints under real Slurm, as it is printed.

Only the number of ranks per node is smaller, because the nodes have one CPU. The training is a stand-in, and so is
hpcnode, because there is no storage account: molecule/cluster/tests/test_training.py has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from simulated.cluster import Cluster
from simulated.guides import printed_script
from simulated.node import Node, wait_for

FOLDER = "/opt/checkpoint-script"
LOG, OUTPUT = f"{FOLDER}/log", f"{FOLDER}/output"
HPCNODE = f"""#!/bin/bash
echo "$SLURM_PROCID hpcnode $*" >>{LOG}
[[ $2 == watch && "$*" != *--once* ]] && exec sleep 600
exit 0
"""
PYTHON = f"""#!/bin/bash
trap 'echo "$SLURM_PROCID saves" >>{LOG}; exit 0' USR1
echo "$SLURM_PROCID training" >>{LOG}
[ "$TRAINING:$SLURM_PROCID" = fails:1 ] && exit 7
while :; do sleep 0.2; done
"""
MINUTES = 7
"""The time limit. Slurm sends the signal 300 s before it, or up to 60 s earlier: the script must be ready by then."""

Submit = Callable[[str], str]


@pytest.fixture
def nodes(cluster: Cluster, controller: str) -> Iterator[list[Node]]:
    """Both nodes, with the stand-ins and a folder of alice."""
    both = [Node.of(cluster, controller, number) for number in ("0", "3")]
    for node in both:
        node.write(f"{FOLDER}/bin/hpcnode", HPCNODE.encode(), "0755")
        node.write(f"{FOLDER}/bin/python", PYTHON.encode(), "0755")
        node.sh(f"chown alice: {FOLDER}")
    yield both
    for node in both:
        node.sh(f"rm -rf {FOLDER}")


@pytest.fixture
def submit(cluster: Cluster, controller: str, nodes: list[Node]) -> Iterator[Submit]:
    """Submits the script as alice, and returns the job's number. Afterwards the nodes are idle again."""
    cluster.wait_for_nodes(controller, {node.name: "idle" for node in nodes})
    script = printed_script("guide_checkpoints")
    assert script.count("--ntasks-per-node=8") == 1
    script = script.replace("--ntasks-per-node=8", "--ntasks-per-node=1")

    def submitted(training: str) -> str:
        options = f"--parsable --time={MINUTES} --output={OUTPUT}"
        options += f" --export=ALL,TRAINING={training},PATH={FOLDER}/bin:/usr/bin:/bin"
        words = f"cd / && sudo -u alice sbatch {options} <<'END'\n{script}END\n"
        return cluster.ssh(controller, words).strip()

    yield submitted
    cluster.ssh(controller, "sudo scancel --user=alice")
    cluster.wait_for_nodes(controller, {node.name: "idle" for node in nodes})


def logged(nodes: list[Node]) -> list[list[str]]:
    """What ran on each node, in order, without the options."""
    return [[" ".join(line.split()[:3]) for line in node.sh(f"cat {LOG}", check=False).splitlines()] for node in nodes]


def job(cluster: Cluster, controller: str, number: str) -> dict[str, str]:
    """The job's fields in slurmctld."""
    shown = cluster.ssh(controller, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def test_before_its_time_limit_each_rank_saves_and_the_job_is_requeued(
    cluster: Cluster, controller: str, nodes: list[Node], submit: Submit
) -> None:
    number = submit("endless")

    def restarts() -> bool:
        return job(cluster, controller, number)["Restarts"] == "1"

    wait_for(restarts, MINUTES * 60, lambda: (logged(nodes), nodes[0].sh(f"cat {OUTPUT}", check=False)))
    for rank, lines in enumerate(logged(nodes)):
        # The watcher starts beside the training, on a busy machine even after its end. It has ended when the rest is
        # published.
        assert lines[0] == lines[-1] == f"{rank} hpcnode checkpoint"
        assert [line for line in lines[1:-1] if "hpcnode" not in line] == [f"{rank} training", f"{rank} saves"]
        assert lines.count(f"{rank} hpcnode checkpoint") == 3


def test_a_rank_that_fails_ends_the_other_ranks_and_the_job(
    cluster: Cluster, controller: str, nodes: list[Node], submit: Submit
) -> None:
    number = submit("fails")
    # The other rank would run until the time limit.
    wait_for(lambda: job(cluster, controller, number)["JobState"] == "FAILED", 120, lambda: logged(nodes))
    assert job(cluster, controller, number)["Restarts"] == "0"
    for rank, lines in enumerate(logged(nodes)):
        assert f"{rank} saves" not in lines
        assert lines[-1] == f"{rank} hpcnode checkpoint"
