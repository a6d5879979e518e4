# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding tools, running them within a limit, and what a run that came to no good end means."""

from __future__ import annotations

import pathlib

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, CannotTell, Finding
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import dcgm, nccl_allreduce
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import tools
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from ..deep_playing import Tool
from ..playing import context


def ended(rc: int = 0, stdout: str = "", stderr: str = "") -> Result:
    """How a run ended."""
    return Result(("tool",), rc, stdout, stderr)


def test_the_sites_program_goes_before_one_that_is_found(tmp_path: pathlib.Path) -> None:
    tree = MachineTree(tmp_path)
    assert tools.program_of(context(tree), nccl_allreduce.CHECK, "tool") is None
    tree.write("/usr/bin/tool", "")
    assert tools.program_of(context(tree), nccl_allreduce.CHECK, "tool") == "/usr/bin/tool"
    tree.write("/opt/tool/tool", "")
    assert tools.program_of(context(tree), nccl_allreduce.CHECK, "tool", ("/opt/tool",)) == "/opt/tool/tool"
    given = context(tree, options={"dcgm": {"program": "/site/tool"}})
    assert tools.program_of(given, dcgm.CHECK, "tool") == "/site/tool"
    assert tools.program_of(given, nccl_allreduce.CHECK, "tool") == "/usr/bin/tool"


@pytest.mark.parametrize(("source", "words"), [("", "tool is not"), ("a package", r"tool \(a package\) is not")])
def test_what_is_needed_and_not_there_is_told_with_its_source(tmp_path: pathlib.Path, source: str, words: str) -> None:
    with pytest.raises(CannotTell, match=f"^{words} installed"):
        tools.needed(context(tmp_path), nccl_allreduce.CHECK, "tool", (), source)
    MachineTree(tmp_path).write("/usr/bin/tool", "")
    assert tools.needed(context(tmp_path), nccl_allreduce.CHECK, "tool", (), source) == "/usr/bin/tool"


def test_a_tool_is_run_with_a_limit_and_its_environment() -> None:
    tool = Tool("done")
    assert tools.call(context(run=tool), ["tool", "-x"], 3.5).stdout == "done"
    tools.call(context(run=tool), ["tool"], 4, {"B": "2", "A": "1"})
    assert tool.commands == [["tool", "-x"], ["tool"]]
    assert tool.environments == [{}, {"A": "1", "B": "2"}]
    assert tool.limits == [3.5, 4.0]


def test_the_last_line_that_says_something_is_of_the_errors_first() -> None:
    assert tools.last_line(ended(stdout="one\ntwo\n")) == "two"
    assert tools.last_line(ended(stdout="one\n", stderr="bad\n#----\n  \n")) == "bad"
    assert tools.last_line(ended(stdout="\n#\n")) == "nothing was printed"


@pytest.mark.parametrize(("device", "whose"), [("", ""), ("gpu0", " for gpu0")])
@pytest.mark.parametrize("rc", [124, 137])
def test_silence_is_a_failure_the_second_time_running(device: str, whose: str, rc: int) -> None:
    given = context()

    def refused(rc: int) -> Finding | None:
        return tools.refusal(given, ended(rc), "tool", 3, device)

    once, twice = refused(rc), refused(rc)
    assert once
    assert twice
    assert (once.verdict, once.summary) == (UNKNOWN, f"tool did not end within 3 s{whose}")
    assert (once.hint, once.device) == ("Run the check again", device)
    assert (twice.verdict, twice.summary) == (FAIL, f"tool did not end within 3 s{whose}, twice running")
    assert twice.hint.startswith("See 'journalctl -k -b'")
    assert refused(0) is None
    again = refused(rc)
    assert again
    assert again.verdict == UNKNOWN, "it had answered in between"


def test_who_was_never_silent_is_not_written_down() -> None:
    given = context()
    tools.answered(given, "tool")
    assert given.history.changed == {}


@pytest.mark.parametrize(
    ("result", "verdict", "words"),
    [
        (ended(126), UNKNOWN, "tool cannot be started: nothing was printed"),
        (ended(127), UNKNOWN, "tool cannot be started: nothing was printed"),
        (ended(1, stderr="libx.so: error while loading shared libraries"), UNKNOWN, "tool cannot be started: libx.so"),
        (ended(1, stdout="CUDA error: out of memory"), UNKNOWN, "tool found too little memory: CUDA error"),
        (ended(1, stdout="bad"), FAIL, "tool failed (exit status 1): bad"),
        (ended(139), FAIL, "tool failed (exit status 139): nothing was printed"),
    ],
)
def test_a_crash_is_the_devices_fault_and_a_tool_that_cannot_run_is_not(
    result: Result, verdict: str, words: str
) -> None:
    finding = tools.refusal(context(), result, "tool", 3)
    assert finding
    assert (finding.verdict, finding.summary[: len(words)]) == (verdict, words)
