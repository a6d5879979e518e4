# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job without a recipe reports its ranks' times as the guide says, and its slow node is noted for the controller."""

from __future__ import annotations

import pathlib
import shlex
import sys
import time

import pytest

from simulated.guides import printed_script

from .conftest import FILES, Job, started

USUAL_S, SLOW_S, STEPS = 0.1, 0.6, 5
# Two ranks wait for each other after each step, so both have the same step time.
RANK = """
import socket, sys
rank, own_s = int(os.environ["SLURM_PROCID"]), [float(word) for word in sys.argv[2:]]
link = socket.socket(socket.AF_UNIX)
if rank == 0:
    link.bind("barrier")
    link.listen()
    link, _address = link.accept()
else:
    while link.connect_ex("barrier"):
        time.sleep(0.05)
for step in range(int(sys.argv[1])):
    began = time.monotonic()
    time.sleep(own_s[rank])
    own = time.monotonic() - began
    link.sendall(b".")
    assert link.recv(1)
    report_times("times-" + os.environ["SLURM_JOB_ID"], time.monotonic() - began, own)
"""


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Job:
    (tmp_path / "rank.py").write_text(printed_script("guide_recovery", "python") + RANK)
    return Job(tmp_path, "none", FILES, sys.executable, "127.0.0.2")


def run(job: Job, *own_s: float, **variables: str) -> str:
    """Run the script of the guide with two ranks, whose own work in a step takes these seconds; return its output."""
    (job.folder / "barrier").unlink(missing_ok=True)
    words = ["--ntasks=2", "--ntasks-per-node=1", sys.executable, "rank.py", str(STEPS), *map(str, own_s)]
    script = printed_script("guide_recovery", number=1)
    assert "srun python train.py" in script
    job.script.write_text(script.replace("python train.py", shlex.join(words)))
    process = started(["bash", str(job.script)], {**job.environment, **variables}, job.folder)
    output, _none = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return output


def comment(job: Job) -> str:
    """What the job has noted in its comment."""
    path = job.folder / "comment"
    return path.read_text() if path.exists() else ""


def test_the_slow_node_of_a_job_without_a_recipe_is_noted(job: Job) -> None:
    output = run(job, USUAL_S, SLOW_S)
    assert "c-1 is slow: it works for 0." in output
    assert output.endswith("noted: c-1\n")
    assert comment(job) == "hpcai:slow=c-1"


def test_nodes_that_are_equally_fast_are_not_noted(job: Job) -> None:
    assert run(job, SLOW_S, SLOW_S) == "no node is slow\n"
    assert comment(job) == ""


def test_times_of_an_earlier_run_do_not_count(job: Job) -> None:
    run(job, USUAL_S, SLOW_S)
    (job.folder / "comment").unlink()
    # After a requeue, the same two nodes are equally fast.
    output = run(job, SLOW_S, SLOW_S, SLURM_JOB_START_TIME=str(int(time.time()) + 1), SLURM_RESTART_COUNT="1")
    assert output == "no node is slow\n"
    assert comment(job) == ""
