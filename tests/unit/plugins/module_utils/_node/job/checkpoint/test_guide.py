# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job script of the guide to checkpoints, as it is printed, with stand-ins for srun, scontrol and the training."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.parser import build_parser
from simulated.guides import printed_script

GUIDE = "guide_checkpoints"
SRUN = """#!/bin/bash
# Runs one rank here. Like the real one, it passes SIGUSR1 on, and ends the rank when it is itself terminated.
trap 'ended=yes; kill -TERM $! 2>/dev/null' TERM
echo "srun $*" >>"$LOG"
while [[ $1 == --* ]]; do shift; done
[[ $ended ]] && exit 143
"$@" &
[[ $ended ]] && kill -TERM $!
trap 'kill -USR1 $!' USR1
wait $!; status=$?
while kill -0 $! 2>/dev/null; do wait $!; status=$?; done
exit $status
"""
HPCNODE = """#!/bin/bash
echo "hpcnode $*" >>"$LOG"
[[ "$*" == *watch*--once* ]] && exit 0
[[ $2 == watch ]] || exit 0
exec sleep 60
"""
PYTHON = """#!/bin/bash
echo "python $*" >>"$LOG"
trap 'exit 0' USR1
case $TRAINING in
    ends) exit 0 ;;
    fails) exit 7 ;;
    *) while :; do sleep 0.05; done ;;
esac
"""
SCONTROL = """#!/bin/bash
echo "scontrol $*" >>"$LOG"
"""


def start(folder: Path, training: str) -> subprocess.Popen[str]:
    """Start the printed script with stand-ins."""
    programs = folder / "programs"
    programs.mkdir()
    for name, text in (("srun", SRUN), ("hpcnode", HPCNODE), ("python", PYTHON), ("scontrol", SCONTROL)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o700)
    script = folder / "job.sh"
    script.write_text(printed_script(GUIDE), encoding="utf-8")
    return subprocess.Popen(
        ["bash", str(script)],
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "LOG": str(folder / "log"),
            "TRAINING": training,
            "USER": "alice",
            "SLURM_JOB_ID": "42",
        },
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> int:
    """Wait for the script, and end what it left."""
    try:
        return process.wait(timeout=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def logged(folder: Path) -> list[str]:
    """The commands that ran, without those of srun."""
    return [line for line in (folder / "log").read_text().splitlines() if not line.startswith("srun ")]


def test_the_script_asks_slurm_to_run_it_again_and_to_end_it_in_time() -> None:
    (options,) = re.findall(r"^#SBATCH (.*)$", printed_script(GUIDE), re.MULTILINE)
    assert {"--exclusive", "--requeue", "--open-mode=append", "--signal=B:USR1@300"} <= set(options.split())
    (training,) = [line for line in printed_script(GUIDE).splitlines() if "train.py" in line]
    assert "--kill-on-bad-exit=1" in training


def test_each_command_of_hpcnode_in_the_script_exists() -> None:
    parser = build_parser((checkpoint.COMMAND,))
    lines = [line for line in printed_script(GUIDE).splitlines() if "hpcnode" in line]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.split("hpcnode ", maxsplit=1)[1].split(" ||")[0].removesuffix("&"))
        parser.parse_args(words)
    assert "--latest-file latest" in lines[0]


def test_a_training_that_ends_is_published_and_not_run_again(tmp_path: Path) -> None:
    assert end(start(tmp_path, "ends")) == 0
    done = logged(tmp_path)
    assert done[0].startswith("hpcnode checkpoint restore --to /scratch/alice/llama-7b")
    assert done[-1] == "hpcnode checkpoint watch /scratch/alice/llama-7b --once"
    assert not [line for line in done if line.startswith("scontrol")]


def test_a_training_that_fails_is_published_and_its_status_is_that_of_the_job(tmp_path: Path) -> None:
    assert end(start(tmp_path, "fails")) == 7
    assert logged(tmp_path)[-1].endswith("--once")


@pytest.mark.timeout(60)
def test_a_job_at_its_time_limit_ends_the_training_publishes_and_runs_again(tmp_path: Path) -> None:
    process = start(tmp_path, "runs on")
    deadline = time.monotonic() + 20
    while not ((tmp_path / "log").exists() and "\npython " in (tmp_path / "log").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR1)
    assert end(process) == 0
    assert logged(tmp_path)[-2:] == [
        "hpcnode checkpoint watch /scratch/alice/llama-7b --once",
        "scontrol requeue 42",
    ]
