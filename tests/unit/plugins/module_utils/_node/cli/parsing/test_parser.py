# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hpcnode makes of commands, actions and options, and what it asks after a wrong one."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as program
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import (
    GOOD,
    Action,
    Answer,
    Command,
    no_arguments,
)


def add_copy(parser: argparse.ArgumentParser) -> None:
    """An option with a value, one without, and words."""
    parser.add_argument("--source", metavar="URL")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("words", nargs="*", metavar="WORD")


def add_show(parser: argparse.ArgumentParser) -> None:
    """An option that another action has too, and one of its own."""
    parser.add_argument("--source", metavar="URL")
    parser.add_argument("--long", action="store_true")


def answer(args: argparse.Namespace) -> Answer:
    """Answer with the arguments."""
    frame = ("json", "root", "debug", "all_commands", "command", "version", "action")
    given = {name: value for name, value in vars(args).items() if name not in frame and value not in (None, False, [])}
    return Answer(GOOD, "", {"action": args.action, "given": given})


def command(default: str = "", ignores: bool = False) -> Command:
    """A command with three actions, of which help shows two."""
    actions = (
        Action("copy", "copy things", "Copies.", add_copy),
        Action("show", "show things", "", add_show, option="--show"),
        Action("old", "do what copy does", listed=False),
    )
    return Command("demo", "s", "It does.", no_arguments, answer, actions, default, ignores, refuses=("--check",))


class Called:
    """What a call left."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: str, called: Command) -> None:
        self.status = program.main(["--json", *words.split()], [called])
        out, self.err = capsys.readouterr()
        self.document: dict[str, Any] = json.loads(out)

    @property
    def taken(self) -> tuple[str, dict[str, Any]]:
        """The action, and its arguments."""
        return self.document["action"], self.document["given"]


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("copy --source x a b", ("copy", {"source": "x", "words": ["a", "b"]})),
        # As scripts of release 0.1.0 write it.
        ("--source x copy a b", ("copy", {"source": "x", "words": ["a", "b"]})),
        ("--source=x --check copy a", ("copy", {"source": "x", "check": True, "words": ["a"]})),
        ("--root / --source copy copy a", ("copy", {"source": "copy", "words": ["a"]})),
        ("copy a --check b", ("copy", {"check": True, "words": ["a", "b"]})),
        ("copy --check -- a", ("copy", {"check": True, "words": ["a"]})),
        ("copy --check --", ("copy", {"check": True})),
        ("-- copy a", ("copy", {"words": ["a"]})),
        ("show --long", ("show", {"long": True})),
        ("--show --long", ("show", {"show": True, "long": True})),
        ("old", ("old", {})),
    ],
)
def test_options_may_precede_and_follow_the_action(
    capsys: pytest.CaptureFixture[str], words: str, taken: tuple[str, Any]
) -> None:
    called = Called(capsys, f"demo {words}", command())
    assert (called.status, called.err, called.taken) == (0, "", taken)


@pytest.mark.parametrize(("words", "given"), [("", {}), ("--long", {"long": True}), ("--source x", {"source": "x"})])
def test_without_a_name_the_default_runs_with_its_options(
    capsys: pytest.CaptureFixture[str], words: str, given: dict[str, Any]
) -> None:
    assert Called(capsys, f"demo {words}", command("show")).taken == ("show", given)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("dmo", "there is no command dmo: did you mean demo? (see 'hpcnode --help')"),
        ("demo", "say what to do: copy, show (see 'hpcnode demo --help')"),
        ("demo cpoy", "there is no action cpoy: did you mean copy? (see 'hpcnode demo --help')"),
        ("demo xyz", "there is no action xyz: the actions are copy, show (see 'hpcnode demo --help')"),
        ("demo --source x xyz", "there is no action xyz: the actions are copy, show (see 'hpcnode demo --help')"),
        ("demo show --logn", "unrecognized arguments: --logn: did you mean --long? (see 'hpcnode demo show --help')"),
        ("demo --logn show", "unrecognized arguments: --logn: did you mean --long? (see 'hpcnode demo --help')"),
        ("demo show x", "unrecognized arguments: x (see 'hpcnode demo show --help')"),
        ("demo copy --long", "--long goes with show, not with copy (see 'hpcnode demo copy --help')"),
        ("demo show --check", "--check goes with copy, not with show (see 'hpcnode demo show --help')"),
        ("demo --show copy", "--show goes with show, not with copy (see 'hpcnode demo copy --help')"),
        ("demo old --source x", "--source goes with copy, show, not with old (see 'hpcnode demo old --help')"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_probably_meant(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    called = Called(capsys, words, command())
    assert (called.status, called.document["error"]) == (3, message)
    assert called.err == f"hpcnode: {message}\n"


def test_an_option_that_older_releases_ignored_is_ignored_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    called = Called(capsys, "demo copy --long a", command(ignores=True))
    assert (called.status, called.taken) == (0, ("copy", {"words": ["a"]}))
    assert called.err == "hpcnode demo: ignored: --long goes with show, not with copy\n"
    assert Called(capsys, "demo show --check", command(ignores=True)).status == 3


@pytest.mark.parametrize(
    ("word", "question"),
    [
        ("skku", "did you mean sku?"),
        ("healht", "did you mean health?"),
        # More than one is possible.
        ("s", "did you mean sku, scratch, stage or slurm?"),
        ("sl", "did you mean slurm?"),
        ("grant", "did you mean grants or train?"),
        ("checkpint", "did you mean checkpoint?"),
        ("zzz", "the commands are sku, boot, health,"),
    ],
)
def test_a_misspelt_command_asks_for_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str], word: str, question: str
) -> None:
    assert program.main([word]) == 3
    error = capsys.readouterr().err
    assert error.startswith(f"hpcnode: there is no command {word}: {question}")
    assert error.count("\n") == 1


def test_a_misspelt_option_is_named_before_the_required_one_that_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["stage", "run", "--soruce", "x", "--target", "y"]) == 3
    assert "unrecognized arguments: --soruce: did you mean --source?" in capsys.readouterr().err


def test_an_actions_page_shows_its_own_options_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["stage", "verify", "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("usage: hpcnode stage verify ")
    assert all(option in page for option in ("--target DIR", "--full", "--json", "--root DIR"))
    assert not [option for option in ("--source", "--relist", "--credential", "--pattern") if option in page]


def test_a_commands_page_lists_its_actions(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["clocks", "--help"]) == 0
    page = capsys.readouterr().out
    assert "\n    status " in page
    assert "(the default)" in page
    assert all(f"\n    {name} " in page for name in ("apply", "reset"))


@pytest.mark.parametrize("name", program.NAMES)
def test_an_option_means_the_same_in_all_actions_of_a_command(name: str) -> None:
    """Else it could not be skipped where it precedes the action."""
    [called] = [one for one in program.all_commands() if one.name == name]
    arities: dict[str, set[bool]] = {}
    for action in called.actions:
        parser = argparse.ArgumentParser()
        action.add_arguments(parser)
        for text, option in parser._option_string_actions.items():
            arities.setdefault(text, set()).add(option.nargs == 0)
    assert not {text for text, found in arities.items() if len(found) > 1}
