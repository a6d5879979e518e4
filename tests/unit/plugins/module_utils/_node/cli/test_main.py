# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hpcnode makes of arguments and errors: one answer, and an exit status that can be relied on."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import (
    BAD,
    GOOD,
    UNKNOWN,
    Answer,
    Command,
    UsageError,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
# A program that answers what its arguments say, for what can only be seen from outside a process.
PROGRAM = """\
import sys
sys.path.insert(0, {collections!r})
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import Answer, Command
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main

def execute(args):
    return Answer(args.status, "x" * args.length + args.tail, {{"length": args.length}})

def add_arguments(parser):
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--length", type=int, default=10)
    parser.add_argument("--tail", default="")

raise SystemExit(main(commands=[Command("say", "say", "Says.", add_arguments, execute)]))
"""


def command(execute: Callable[[argparse.Namespace], Answer], name: str = "demo") -> Command:
    """A sub-command with one option."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--level", type=int)

    return Command(name, f"{name} things", "It does.", add_arguments, execute)


def failing(error: BaseException) -> Command:
    """A sub-command that raises."""

    def execute(_args: argparse.Namespace) -> NoReturn:
        raise error

    return command(execute)


def answering(status: int = GOOD, text: str = "words", **data: Any) -> Command:
    """A sub-command that answers."""
    return command(lambda _args: Answer(status, text, data))


class Ran:
    """What a call of main() left: exit status and both outputs."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: str, *commands: Command) -> None:
        self.status = frame.main(words.split(), commands)
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object that it must be."""
        parsed = json.loads(self.out)
        assert isinstance(parsed, dict)
        return parsed


@pytest.mark.parametrize("status", [GOOD, BAD, UNKNOWN])
def test_exit_status_is_the_answers(capsys: pytest.CaptureFixture[str], status: int) -> None:
    ran = Ran(capsys, "demo", answering(status))
    assert (ran.status, ran.out, ran.err) == (status, "words\n", "")


@pytest.mark.parametrize("words", ["demo --json", "--json demo", "--json demo --level 3"])
@pytest.mark.parametrize("status", [GOOD, BAD, UNKNOWN])
def test_json_is_one_object_with_the_frames_keys(capsys: pytest.CaptureFixture[str], words: str, status: int) -> None:
    ran = Ran(capsys, words, answering(status, disks=["nvme0n1"]))
    assert ran.status == status
    assert ran.json == {"schema": 1, "command": "demo", "status": status, "disks": ["nvme0n1"]}


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UsageError("up and down at once"), 3, "hpcnode demo: up and down at once\n"),
        (CommandFailed("'mdadm' failed"), 1, "hpcnode demo: 'mdadm' failed\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "hpcnode demo: [Errno 13] Permission denied: '/x'\n"),
        (ConfigError("scratch.json is not valid JSON"), 2, "hpcnode demo: scratch.json is not valid JSON\n"),
        (UnknownVmSize("no size X;\n  near: Y"), 2, "hpcnode demo: no size X; near: Y\n"),
        (KeyboardInterrupt(), 2, "hpcnode demo: interrupted\n"),
        (
            KeyError("gpus"),
            2,
            "hpcnode demo: KeyError: 'gpus': this is a defect of hpcnode; --debug shows where it arose\n",
        ),
    ],
)
def test_each_error_has_its_exit_status_and_one_line(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, words: str
) -> None:
    ran = Ran(capsys, "demo", failing(error))
    assert (ran.status, ran.out, ran.err) == (status, "", words)
    ran = Ran(capsys, "demo --json", failing(error))
    assert ran.err == words
    assert ran.json == {"schema": 1, "command": "demo", "status": status, "error": words[len("hpcnode demo: ") : -1]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("demos", "there is no command demos: did you mean demo? (see 'hpcnode --help')"),
        ("xyz", "there is no command xyz: the commands are demo (see 'hpcnode --help')"),
        ("demo --level high", "argument --level: invalid int value: 'high'"),
        ("demo --lev 3", "unrecognized arguments: --lev"),
        ("demo --wrong", "unrecognized arguments: --wrong"),
        ("demo --root /there/is/none", "--root /there/is/none: there is no such folder"),
        ("--root", "argument --root: expected one argument"),
    ],
)
def test_wrong_usage_exits_with_3_and_not_argparses_2(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    ran = Ran(capsys, words, answering())
    assert ran.status == 3
    assert ran.out == ""
    assert message in ran.err
    assert ran.err.count("\n") == 1
    ran = Ran(capsys, f"--json {words}", answering())
    assert (ran.status, ran.json["status"]) == (3, 3)
    assert message in ran.json["error"]


def test_root_is_given_before_or_after_the_command(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    rooted = command(lambda args: Answer(GOOD, args.root))
    assert Ran(capsys, f"--root {tmp_path} demo", rooted).out == f"{tmp_path}\n"
    assert Ran(capsys, f"demo --root {tmp_path}", rooted).out == f"{tmp_path}\n"
    assert Ran(capsys, "demo", rooted).out == "/\n"


def test_options_may_stand_between_the_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=("check",))
        parser.add_argument("words", nargs="*")
        parser.add_argument("--nodes", type=int, default=1)

    mixed = Command("demo", "s", "d", add_arguments, lambda args: Answer(GOOD, f"{args.nodes} {args.words}"))
    for words in ("check a b --nodes 2", "check --nodes 2 a b", "--nodes 2 check a b", "check a --nodes 2 b"):
        assert Ran(capsys, f"demo {words}", mixed).out == "2 ['a', 'b']\n", words
    assert Ran(capsys, "demo check a --node 2", mixed).status == 3


def test_commands_of_commands_have_the_common_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_subparsers(dest="verb").add_parser("up")

    nested = Command("scratch", "s", "d", add_arguments, lambda args: Answer(GOOD, args.verb, {"verb": args.verb}))
    assert Ran(capsys, "scratch up --json", nested).json["verb"] == "up"
    ran = Ran(capsys, "scratch sideways", nested)
    assert (ran.status, ran.err.count("\n")) == (3, 1)


def test_debug_alone_shows_where_an_error_arose(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Traceback" not in Ran(capsys, "demo", failing(KeyError("x"))).err
    ran = Ran(capsys, "demo --debug", failing(KeyError("x")))
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("hpcnode demo: KeyError")


def test_an_answer_may_not_hide_what_the_frame_says(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "demo --json", answering(status=GOOD, command="rm"))
    assert ran.status == UNKNOWN
    assert "keys that hpcnode sets: command" in ran.json["error"]


def test_an_empty_text_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert Ran(capsys, "demo", answering(text="")).out == ""


def test_version_is_told_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    output = Ran(capsys, "--version", answering()).out
    assert output.split()[0] == "hpcnode"
    assert Ran(capsys, "--version --json", answering()).json["version"] == output.split()[1]


@pytest.mark.parametrize("words", ["--help", "-h", "demo --help", "demo -h"])
@pytest.mark.parametrize("columns", ["80", "200", "20"])
def test_help_is_a_page_of_80_columns_at_most(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = Ran(capsys, words, answering())
    assert ran.status == 0
    headings = [line for line in ran.out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    listed = ["commands:"] if words.startswith("-") else []
    assert headings == ["options:", *listed, "common options:", "exit status:", "files:"]
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_without_a_command_it_shows_the_page_and_is_not_good(capsys: pytest.CaptureFixture[str]) -> None:
    page = Ran(capsys, "--help", answering()).out
    ran = Ran(capsys, "", answering())
    assert (ran.status, ran.out, ran.err) == (3, page, "")
    ran = Ran(capsys, "--json", answering())
    assert (ran.status, ran.json["status"], ran.json["command"]) == (3, 3, None)
    assert "no command given" in ran.json["error"]


def test_help_lists_each_command_and_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    page = Ran(capsys, "--help", answering()).out
    assert "demo things" in page
    page = Ran(capsys, "demo --help", answering()).out
    assert page.startswith("usage: hpcnode demo ")
    assert all(option in page for option in ("--level", "--json", "--root DIR", "--debug"))


def test_help_keeps_examples_and_lists_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = "x" * 70
    listed = f"  up    {'word ' * 12}"
    description = f"First\nparagraph.\n\n    hpcnode demo \\\n      --level 3 {long}\n\n{listed}\n\nLast."
    shown = Command("demo", "s", description, lambda _parser: None, lambda _args: Answer(GOOD, ""))
    page = Ran(capsys, "demo --help", shown).out
    assert f"First paragraph.\n\n    hpcnode demo \\\n      --level 3 {long}\n\n  up    word" in page
    assert "word\n        word word" in page


@pytest.fixture
def program(tmp_path: pathlib.Path) -> list[str]:
    """hpcnode with one command, as a process."""
    script = tmp_path / "say.py"
    script.write_text(PROGRAM.format(collections=str(REPOSITORY / ".collections")), encoding="utf-8")
    return [sys.executable, str(script), "say"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_reader_that_leaves_early_changes_no_exit_status(program: list[str], status: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*program, "--length", "100000", "--status", str(status)]
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (status, "")


def test_an_answer_that_cannot_be_written_is_not_good(program: list[str]) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == UNKNOWN
    assert done.stderr == "hpcnode: cannot write the answer: No space left on device\n"


@pytest.mark.parametrize("status", [0, 1])
def test_a_caller_may_close_the_standard_streams(program: list[str], status: int) -> None:
    # As slurmctld 22.05 does for the programs of elastic sets.
    words = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *program, "--status", str(status)]
    assert subprocess.run(words, timeout=30, check=False).returncode == status


def test_letters_that_the_locale_lacks_are_replaced(program: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*program, "--tail", "\u00e4"], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, "xxxxxxxxxx\\xe4\n")


def test_listed_commands_are_those_on_disk() -> None:
    """A file that the tuple lacks would be missing on every node, and nobody would tell."""
    folder = REPOSITORY / "plugins/module_utils/_node/cli"
    with_a_command = {path.stem for path in folder.glob("*.py") if "\nCOMMAND = " in path.read_text()}
    assert set(frame.NAMES) == with_a_command


def test_every_command_takes_the_common_options_and_answers_in_json(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    """Below an empty root, so each finds nothing; whatever it makes of that, the form holds."""
    words = {
        "sku": "--all",
        "boot": "status",
        "health": "status",
        "scratch": "status",
        "clocks": "status",
        "nccl": "verify",
        "pins": "",
        "bench": f"results compute-0 --results {tmp_path}",
        "train": f"list --recipes {tmp_path}",
        "containers": "status",
        "elastic": "status",
        "beeond": "status",
        "job": "status",
        "stage": f"status --target {tmp_path}",
        "checkpoint": f"status {tmp_path}",
        "grants": "status",
        "slurm": "list",
        "arbiter": "status",
        "events": "show",
        "metadata": "status",
        "diag": "list",
        "goodput": "",
        "recover": "status",
        "metrics": "status",
        "tools": "check",
    }
    assert set(words) == set(frame.NAMES)
    for name, rest in words.items():
        status = frame.main(["--root", str(tmp_path), name, *rest.split(), "--json"])
        document = json.loads(capsys.readouterr().out)
        assert (document["schema"], document["command"], document["status"]) == (1, name, status)
        assert status in (GOOD, BAD, UNKNOWN)
        assert "defect" not in document.get("error", "")


@pytest.mark.parametrize("name", frame.NAMES)
def test_every_page_of_help_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    [command] = [command for command in frame.all_commands() if command.name == name]
    for words in [[name], *([name, action.name] for action in command.actions)]:
        assert frame.main([*words, "--help"]) == 0
        page = capsys.readouterr().out
        assert page.startswith(f"usage: hpcnode {' '.join(words)} ")
        assert not [line for line in page.splitlines() if len(line) > 80]
