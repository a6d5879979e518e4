# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode recover suspect: slow nodes that a job names, or that the times of its ranks show."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import recover
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

START = 1_700_000_000


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A job on four nodes; the comments that it got."""
    made: list[str] = []

    def run(words: Sequence[str], _limit_s: float = 0) -> Result:
        if words[0] == "scontrol":
            made.append(words[-1])
        return Result(tuple(words), 0, "(null)\n", "")

    monkeypatch.setattr(recover, "run", run)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c-[0-3]")
    monkeypatch.setenv("SLURM_JOB_START_TIME", str(START))
    return made


def written(folder: pathlib.Path, times: Mapping[str, Mapping[str, float]], since: float = START) -> str:
    """Write three lines of each node, whose times these are, and return the folder."""
    for number, (node, seconds) in enumerate(times.items()):
        lines = [json.dumps({"t": since + count, "rank": number, "node": node, **seconds}) for count in range(3)]
        with (folder / f"rank-{number}.jsonl").open("a") as file:
            file.write("\n".join(lines) + "\n")
    return str(folder)


def even(**changed: Mapping[str, float]) -> dict[str, Mapping[str, float]]:
    """The times of four nodes, some of them changed."""
    times: dict[str, Mapping[str, float]] = {f"c-{n}": {"step_s": 1.0, "own_s": 0.3 + n / 100} for n in range(4)}
    return {**times, **{name.replace("_", "-"): value for name, value in changed.items()}}


def test_the_slow_node_is_noted(tmp_path: pathlib.Path, notes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path, even(c_2={"step_s": 1.0, "own_s": 0.9}))
    assert frame.main(["recover", "suspect", "--times", folder]) == 0
    assert notes == ["Comment=hpcai:slow=c-2"]
    assert "c-2 is slow: it works for 0.9 s of each step, the others for 0.31 s." in capsys.readouterr().out


def test_a_node_that_waits_for_its_data_is_noted_too(tmp_path: pathlib.Path, notes: list[str]) -> None:
    folder = written(tmp_path, even(c_1={"step_s": 1.0, "own_s": 0.3, "data_s": 0.5}))
    assert frame.main(["recover", "suspect", "--times", folder]) == 0
    assert notes == ["Comment=hpcai:slow=c-1"]


def test_without_the_own_work_it_is_the_step_without_the_wait_for_data(
    tmp_path: pathlib.Path, notes: list[str]
) -> None:
    """For ranks that do not wait for each other."""
    times = {f"c-{n}": {"step_s": 0.5 + n / 100, "data_s": 0.2} for n in range(4)}
    folder = written(tmp_path, {**times, "c-3": {"step_s": 1.2, "data_s": 0.2}})
    assert frame.main(["recover", "suspect", "--times", folder]) == 0
    assert notes == ["Comment=hpcai:slow=c-3"]


def test_equal_nodes_an_earlier_run_and_other_nodes_cause_no_note(tmp_path: pathlib.Path, notes: list[str]) -> None:
    written(tmp_path, even(c_2={"step_s": 1.0, "own_s": 0.9}), START - 100)
    folder = written(tmp_path, even(d_5={"step_s": 1.0, "own_s": 0.9}))
    assert frame.main(["recover", "suspect", "--times", folder]) == 0
    assert notes == []


def test_without_times_of_this_run_nothing_is_known(
    tmp_path: pathlib.Path, notes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["recover", "suspect", "--times", str(tmp_path)]
    assert frame.main(words) == 2
    assert "no rank wrote any" in capsys.readouterr().out
    written(tmp_path, {"compute00000H": {"step_s": 1.0, "own_s": 0.9}})
    assert frame.main(words) == 2
    assert "its lines name compute00000H, which is no node of this job" in capsys.readouterr().out
    assert notes == []


def test_lines_that_are_no_times_are_ignored(tmp_path: pathlib.Path, notes: list[str]) -> None:
    folder = written(tmp_path, even(c_2={"step_s": 1.0, "own_s": 0.9}))
    with (tmp_path / "rank-0.jsonl").open("a") as file:
        file.write('{"t":\n[1]\n7\nnull\n{"t": 1, "rank": Infinity, "node": "c-0", "step_s": 1}\n{"node": "c-0"}\n\0')
    assert frame.main(["recover", "suspect", "--times", folder]) == 0
    assert notes == ["Comment=hpcai:slow=c-2"]


@pytest.mark.parametrize("words", [["c-9"], ["c-0", "c-1", "c-2", "c-3", "c-0"], [], ["c-0", "--times", "x"]])
def test_other_usage_is_refused(notes: list[str], words: list[str]) -> None:
    assert frame.main(["recover", "suspect", *words]) == 3
    assert notes == []


def test_named_nodes_are_noted(notes: list[str]) -> None:
    assert frame.main(["recover", "suspect", "c-3", "c-0"]) == 0
    assert notes == ["Comment=hpcai:slow=c-3,hpcai:slow=c-0"]
