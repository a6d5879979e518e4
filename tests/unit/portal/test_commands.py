# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the portal runs Slurm's commands."""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from hpcai_portal import commands, slurm

AWAY = "scancel: error: Unable to contact slurm controller (connect failure)"


def test_status_and_output_are_returned() -> None:
    assert asyncio.run(commands.answer_of(["sh", "-c", "echo a; echo b >&2; exit 3"])) == (3, "a\n", "b\n")


def test_a_command_that_takes_too_long_is_ended() -> None:
    before = time.monotonic()
    assert asyncio.run(commands.answer_of(["sleep", "60"], limit_s=0.2)) == (124, "", "sleep timed out after 0.2 s")
    assert time.monotonic() - before < 30


def test_a_sudo_that_takes_too_long_belongs_to_root_and_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left: list[Process] = []

    def refuse(process: Process) -> None:
        left.append(process)
        raise PermissionError(1, "Operation not permitted")

    async def main() -> int:
        waits = ["sh", "-c", f"until [ -e {tmp_path}/end ]; do sleep 0.05; done"]
        rc, _stdout, _stderr = await asyncio.wait_for(commands.answer_of(waits, limit_s=0.2), 60)
        (tmp_path / "end").touch()
        await left[0].wait()
        return rc

    monkeypatch.setattr(Process, "kill", refuse)
    assert asyncio.run(main()) == 124


@pytest.mark.parametrize(
    ("answers", "is_done"),
    [
        ([(1, AWAY), (124, "timed out"), (0, "")], True),
        ([(1, AWAY), (1, "scancel: error: Kill job error on job id 7: Invalid job id specified")], True),
        ([(1, "scancel: error: Kill job error on job id 7: Job/step already completing or completed")], True),
        ([(1, AWAY)] * 50, False),
    ],
)
def test_a_job_is_cancelled_until_slurm_has_taken_it(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[int, str]], is_done: bool
) -> None:
    asked: list[list[str]] = []

    async def answer_of(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        rc, stderr = answers[len(asked) - 1]
        return rc, "", stderr

    monkeypatch.setattr(commands, "answer_of", answer_of)
    monkeypatch.setattr(commands, "AGAIN_S", 0.02)
    assert asyncio.run(commands.cancel_until_done("alice", "7", 5 if is_done else 0.2)) is is_done
    assert asked == [slurm.cancel("alice", "7")] * len(asked)
    assert len(asked) == len(answers) or not is_done
