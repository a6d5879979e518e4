# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manual pages and completion: each command, action and option is in them, and the programs that read them agree."""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES, all_commands
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.completion import (
    bash_completion,
    zsh_completion,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.manual import manual_pages, roff
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.outline import Outline, outline
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.pages import all_pages
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.parser import Parser, build_parser
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import MARK

PAGES = all_pages(all_commands())


def shown(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each option in the tree of parsers with the words before it, and each command and action with its own name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for pseudo in action._choices_actions:
                yield (*path, pseudo.dest), pseudo.dest
                yield from shown(action.choices[pseudo.dest], (*path, pseudo.dest))
        elif action.help != argparse.SUPPRESS:
            yield from ((path, option) for option in action.option_strings)


COMMON = {"-h", "--help", "--json", "--root", "--debug"}
EVERYTHING = sorted(set(shown(build_parser(all_commands()))))


def test_the_tree_is_that_of_all_commands() -> None:
    """The other tests compare with it."""
    assert {path[0] for path, _word in EVERYTHING if path} == set(NAMES)
    assert (("stage", "run"), "--decompress") in EVERYTHING
    assert (("stage", "status"), "--decompress") not in EVERYTHING
    assert len(EVERYTHING) > 300


def plain(page: str) -> str:
    """A manual page without escapes."""
    return re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\(aq", "'")


def section(page: str, path: tuple[str, ...]) -> str:
    """The part of a page about an action; empty if there is none."""
    return page.partition(f".SS hpcnode {' '.join(path)}\n")[2].partition("\n.SS ")[0]


def test_the_manual_has_each_command_action_and_option() -> None:
    pages = {name: plain(page) for name, page in PAGES.manual.items()}
    assert set(pages) == {"hpcnode.1", *(f"hpcnode-{name}.1" for name in NAMES)}
    lacking = []
    for path, word in EVERYTHING:
        page = pages[f"hpcnode-{path[0]}.1" if path else "hpcnode.1"]
        if path[1:] and word not in COMMON:
            page = section(page, path)
        # An action is the heading of its section.
        is_there = bool(page) if path[-1:] == (word,) else re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", page)
        if not is_there:
            lacking.append((path, word))
    assert not lacking
    for name in NAMES:
        assert f".BR hpcnode-{name} (1)" in pages["hpcnode.1"]


def test_an_options_section_is_that_of_its_action() -> None:
    verify = section(plain(PAGES.manual["hpcnode-stage.1"]), ("stage", "verify"))
    assert "--full" in verify
    assert "--decompress" not in verify


@pytest.mark.parametrize("name", sorted(PAGES.manual))
def test_groff_reads_each_page_without_a_warning(name: str) -> None:
    program = shutil.which("groff")
    if not program:
        pytest.skip("no groff here")
    command = [program, "-man", "-Tutf8", "-ww"]
    done = subprocess.run(command, input=PAGES.manual[name], capture_output=True, text=True, timeout=60, check=False)
    if "can't find macro file" in done.stderr or "cannot open" in done.stderr:
        pytest.skip("groff has no macros of man(7) here")
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub("\x1b\\[[0-9;]*m|.\b", "", done.stdout).translate({0x2010: "-", 0x2212: "-"})
    assert "NAME" in text
    assert re.search(rf"^ +{name.removesuffix('.1')} +- ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".complete", "\\&.complete"),
        ("'*_{000..063}'", "\\(aq*_{000..063}\\(aq"),
        ("a\\b --x ~y", "a\\eb \\-\\-x \\(tiy"),
    ],
)
def test_no_character_of_a_text_has_a_meaning_for_roff(text: str, expected: str) -> None:
    assert roff(text) == expected


@pytest.mark.parametrize("text", [PAGES.bash, PAGES.zsh, *PAGES.manual.values()])
def test_each_file_has_the_mark_by_which_it_is_removed(text: str) -> None:
    assert sum(MARK in line for line in text.splitlines()) == 1


def offered(words: list[str]) -> list[str]:
    """What bash offers for the last word."""
    script = f"""{PAGES.bash}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() {{ :; }}
        _hpcnode
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    command = ["bash", "-c", script, "bash", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.splitlines()))


def test_bash_offers_each_command_action_and_option() -> None:
    """All of a place at once, because each call starts a shell."""
    places: dict[tuple[str, ...], set[str]] = {}
    for path, word in EVERYTHING:
        places.setdefault(path[:-1] if path and word == path[-1] else path, set()).add(word)
    for path, words in places.items():
        assert words <= set(offered(["hpcnode", *path, ""])), path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("st", ["stage"]),
        ("stage ver", ["verify"]),
        ("stage --credential identity ver", ["verify"]),
        ("stage run --decom", ["--decompress"]),
        ("stage status --decom", []),
        ("stage run --credential s", ["sas"]),
        ("stage run --credential = s", ["sas"]),
        ("stage run --credential =", ["identity", "none", "sas", "workload"]),
        ("--root /usr stage ver", ["verify"]),
        ("stage --sas-file = verify stat", ["status"]),
        ("job run pro", ["prolog"]),
        ("health run --only gpu_cou", ["gpu_count"]),
        ("nccl --x", ["--xml"]),
        ("arbiter te", []),
        ("stage run --source h", []),
    ],
)
def test_bash_offers_what_can_follow(words: str, expected: list[str]) -> None:
    assert offered(["hpcnode", *words.split()]) == expected


def test_bash_offers_folders(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert offered(["hpcnode", "--root", f"{tmp_path}/f"]) == [f"{tmp_path}/folder"]


def test_zsh_has_each_command_action_and_option() -> None:
    tables = dict(re.findall(r'^    "([^"]*)"\) found=\((.*)\) ;;$', PAGES.zsh, re.MULTILINE))
    lacking = [
        (path, word)
        for path, word in EVERYTHING
        if not re.search(
            rf"(?:^| )['\"]?{re.escape(word)}:",
            tables[" ".join(path[:-1] if path and word == path[-1] else path)],
        )
    ]
    assert not lacking
    assert PAGES.zsh.startswith("#compdef hpcnode\n")


def test_zsh_reads_its_script() -> None:
    program = shutil.which("zsh")
    if not program:
        pytest.skip("no zsh here")
    done = subprocess.run([program, "-n"], input=PAGES.zsh, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_without_actions_has_its_pages_too() -> None:
    parser = Parser("hpcnode", description="It does.")
    branch = parser.add_subparsers(metavar="COMMAND", parser_class=Parser).add_parser("demo", help="demo things")
    branch.add_argument("--level", metavar="N", help="how much")
    branch.add_argument("file", metavar="FILE", help="what to read")
    whole: Outline = outline(parser)
    page = plain(manual_pages(whole)["hpcnode-demo.1"])
    assert "hpcnode demo [OPTION ...] FILE\n" in page
    assert "--level N\nhow much\n" in page
    assert '"demo --level") :; return ;;' in bash_completion(whole)
    assert "\"demo --level\") _message 'how much'; return ;;" in zsh_completion(whole)
