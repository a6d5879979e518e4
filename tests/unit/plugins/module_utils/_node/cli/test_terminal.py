# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Colours: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import json

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as program
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import terminal
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import (
    BAD,
    Answer,
    Command,
    UsageError,
    no_arguments,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.terminal import counter

RED, YELLOW, END = "\033[31m", "\033[33m", "\033[0m"
TEXT = "gpu_count: fail (0.1 s): 7 of 8\nscratch  warn  1.2\nwarning: late\na pass is no verdict here\n"


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has switched nothing off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_only_verdicts_are_coloured() -> None:
    painted = terminal.paint(TEXT, Terminal())
    assert painted.splitlines() == [
        f"gpu_count: {RED}fail{END} (0.1 s): 7 of 8",
        f"scratch  {YELLOW}warn{END}  1.2",
        f"{YELLOW}warning{END}: late",
        "a pass is no verdict here",
    ]


def test_a_pipe_or_a_file_gets_none() -> None:
    assert terminal.paint(TEXT, io.StringIO()) == TEXT
    assert terminal.paint_page("options:\n", io.StringIO()) == "options:\n"
    assert terminal.paint_error("hpcnode:", io.StringIO()) == "hpcnode:"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", None)])
def test_who_wants_none_gets_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert terminal.paint(TEXT, Terminal()) == TEXT


def test_an_empty_no_color_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert RED in terminal.paint(TEXT, Terminal())


def test_names_that_users_chose_send_no_commands_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err, pipe = Terminal(), Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    program.write(False, "demo", BAD, "demo: fail: left behind: \033]0;evil\a\tx\r\nnext", {})
    program.refuse(False, "demo", OSError("no \033[2J"))
    assert out.getvalue() == f"demo: {RED}fail{END}: left behind: \\x1b]0;evil\\x07\tx\\x0d\nnext\n"
    assert "no \\x1b[2J" in err.getvalue()
    # A program that reads the answer gets it unchanged.
    monkeypatch.setattr("sys.stdout", pipe)
    program.write(False, "demo", BAD, "a\033b", {})
    assert pipe.getvalue() == "a\033b\n"


def call(monkeypatch: pytest.MonkeyPatch, *words: str, wrong: bool = False) -> tuple[str, str]:
    """Call a command on a terminal, and return both outputs."""
    out, err = Terminal(), Terminal()

    def execute(_args: object) -> Answer:
        if wrong:
            raise UsageError("so not")
        return Answer(BAD, "demo: fail: so it is", {"verdict": "fail"})

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", out)
        patched.setattr("sys.stderr", err)
        program.main(["demo", *words], [Command("demo", "s", "It does.", no_arguments, execute)])
    return out.getvalue(), err.getvalue()


def test_hpcnode_colours_answers_errors_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch)[0] == f"demo: {RED}fail{END}: so it is\n"
    assert call(monkeypatch, wrong=True)[1] == f"{RED}hpcnode demo:{END} so not\n"
    assert "\033[1mcommon options:\033[0m\n" in call(monkeypatch, "--help")[0]


def test_json_has_no_colours_on_a_terminal_either(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(call(monkeypatch, "--json")[0])["verdict"] == "fail"


def counted(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, as_json: bool = False) -> str:
    """What counting two steps writes to standard error."""
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", stream)
        with counter("health", "check", as_json) as show:
            show("gpu_count", 1, 2)
            show("nccl_local", 2, 2)
    return stream.getvalue()


def test_a_terminal_shows_which_step_runs_and_forgets_it_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = counted(monkeypatch, Terminal()).split("\r\033[K")
    assert parts == ["", "hpcnode health: check 1 of 2: gpu_count", "hpcnode health: check 2 of 2: nccl_local", ""]


def test_nothing_is_counted_for_programs_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted(monkeypatch, io.StringIO()) == ""
    # ssh -tt gives even a program a terminal.
    assert counted(monkeypatch, Terminal(), as_json=True) == ""


def test_an_error_leaves_no_half_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)

    def fail() -> None:
        with counter("health", "check", False) as show:
            show("gpu_count", 1, 2)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert stream.getvalue().endswith("gpu_count\r\033[K")
