# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The troubleshooting guide quotes messages that the product really prints.

Its entries are definition lists. A term consists of quotes in double backquotes. In a quote, ``…`` or ``<name>`` marks
text that the product fills in at run time.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES

GUIDE = "docs/docsite/rst/guide_troubleshooting.rst"
FOLDERS = ("plugins", "roles", "playbooks")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
TERM = re.compile(r"^(?=``)(?P<quotes>.+``)\n(?P<indent> *)", re.MULTILINE)
QUOTE = re.compile(r"``(.+?)``")
COMMAND = re.compile(r"``(?:sudo )?hpcnode ([a-z]+)")
# `{{ ... }}` of Jinja, and the joins inside of one: 'a ' ~ b ~ ' c'.
EXPRESSION = re.compile(r"\{\{.*?\}\}")
JOINED = re.compile(r"' ~ [\w.]+ ~ '")
STRING = re.compile(r"'[^']*'")
WORD = re.compile(r"[a-z]{2,}", re.IGNORECASE)
FEWEST = 40


def plain(text: str) -> str:
    """A text on one line; adjacent marks (…) become one."""
    return re.sub(r"…+", "…", " ".join(text.split()))


def literals(tree: ast.AST, constants: Mapping[str, str]) -> Iterator[str]:
    """The strings of Python code without its documentation. Parts of one string are joined."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) if name in DOCUMENTATION:
                pass
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(filled(part, constants) for part in parts)
                yield from literals(node, constants)
            case _:
                yield from literals(node, constants)


def filled(part: ast.expr, constants: Mapping[str, str]) -> str:
    """A part of an f-string: its text, the value of the constant that it names, or the mark."""
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return constants.get(name, "…")
    return "…"


def constants_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names and values of the module's constants that are strings."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


def lines_of(text: str) -> Iterator[str]:
    """YAML or a template on one line, without comments: once with joins marked, once with expressions marked."""
    line = " ".join(line.strip() for line in text.splitlines() if not line.lstrip().startswith("#"))
    yield JOINED.sub("…", line)
    yield EXPRESSION.sub("…", line)


def has_messages(file: pathlib.PurePosixPath) -> bool:
    """Whether a file may contain messages of the product. Descriptions of options are documentation."""
    return file.parts[0] in FOLDERS and file.suffix in (".py", ".yml", ".j2") and file.name != "argument_specs.yml"


@pytest.fixture(scope="module")
def printed(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> str:
    """All texts that the product may print, one per line."""
    texts = {file: (repository / file).read_text(encoding="utf-8") for file in files if has_messages(file)}
    trees = [ast.parse(text) for file, text in texts.items() if file.suffix == ".py"]
    values: dict[str, set[str]] = {}
    for tree in trees:
        for name, value in constants_of(tree):
            values.setdefault(name, set()).add(value)
    # A name with several values becomes the mark.
    constants = {name: next(iter(known)) for name, known in values.items() if len(known) == 1}
    found = [text for tree in trees for text in literals(tree, constants)]
    found += [line for file, text in texts.items() if file.suffix != ".py" for line in lines_of(text)]
    assert len(found) > 5000, f"found only {len(found)} texts; these tests would prove nothing"
    return "\n".join(map(plain, found))


def failures(node: Any) -> Iterator[str]:
    """The messages of asserts and of the module fail in a playbook or in tasks."""
    if isinstance(node, list):
        for item in node:
            yield from failures(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "fail_msg":
                yield str(value)
            elif key == "ansible.builtin.fail":
                yield str(value["msg"])
            else:
                yield from failures(value)


def words_of(message: str) -> str:
    """The text of a message without what is filled in: outside of expressions, and strings inside of them."""
    outside = EXPRESSION.sub(" ", message)
    inside = " ".join(text for part in EXPRESSION.findall(message) for text in STRING.findall(part))
    return f"{outside} {inside}"


@pytest.fixture(scope="module")
def guide(repository: pathlib.Path) -> str:
    """The guide's text."""
    return (repository / GUIDE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def quotes(guide: str) -> list[str]:
    """The quoted messages of all terms."""
    return [quote for term in TERM.finditer(guide) for quote in QUOTE.findall(term["quotes"])]


def test_the_product_prints_each_quoted_message(printed: str, quotes: list[str]) -> None:
    stale = [quote for quote in quotes if plain(re.sub(r"<[^<>]+>", "…", quote)) not in printed]
    assert not stale, "quote what the product prints now, or remove the entry"


def test_each_message_of_a_playbook_or_role_is_quoted(
    repository: pathlib.Path, files: list[pathlib.PurePosixPath], quotes: list[str]
) -> None:
    """Messages that consist of a variable come from a module, which is compared only in the other direction."""
    tasks = [file for file in files if file.parts[0] in ("playbooks", "roles") and file.suffix == ".yml"]
    texts = [(repository / file).read_text(encoding="utf-8") for file in tasks if file.name != "argument_specs.yml"]
    messages = [message for text in texts for message in failures(yaml.safe_load(text))]
    written = [message for message in messages if len(WORD.findall(words_of(message))) >= 4]
    assert len(written) > 50
    stems = [plain(re.sub(r"<[^<>]+>", "…", quote)) for quote in quotes]
    shown = {plain(message): "\n".join(map(plain, lines_of(message))) for message in written}
    missing = [message for message, lines in shown.items() if not any(stem in lines for stem in stems)]
    assert not missing, "quote a part of each message in the guide"


def test_each_message_is_explained_and_quoted_once(guide: str, quotes: list[str]) -> None:
    bare = [term["quotes"] for term in TERM.finditer(guide) if not term["indent"]]
    assert not bare, "a term needs an indented explanation below it"
    assert len(quotes) >= FEWEST
    assert sorted(quotes) == sorted(set(quotes))


def test_each_hpcnode_command_in_the_guide_exists(guide: str) -> None:
    named = set(COMMAND.findall(guide))
    assert named
    assert not named - set(NAMES)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('raise ValueError(f"{path} cannot be "\n    "read: run as root")', "… cannot be read: run as root"),
        ('reason = f"{PREFIX} health: {check}"', "hpcai: health: …"),
        ("words = f\"the node {'is out' if out else 'stays'}\"", "is out"),
    ],
)
def test_finds_messages_that_are_split_or_filled_in(source: str, text: str) -> None:
    assert text in literals(ast.parse(source), {"PREFIX": "hpcai:"})


def test_documentation_does_not_count_as_a_message() -> None:
    source = '"""Of the module."""\nDOCUMENTATION = "Of the plugin."\n\n\ndef f():\n    """Of the function."""\n'
    assert not list(literals(ast.parse(source), {}))
