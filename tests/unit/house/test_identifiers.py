# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of classes, functions, parameters and Ansible variables do not have to be guessed."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

# They do not say what the class holds.
CLASSES = {"Wanted", "Known", "Need", "Part", "Seen", "Tell", "Wish", "Stays", "Inside", "Made", "Side", "Other"}
CLASSES |= {"Done", "Kept", "Asked"}
CLASSES |= {"Place", "Room", "Piece", "Out", "Stuck", "Thing", "Stuff", "Info", "Data", "Manager", "Helper"}
# Joined from parts, because the words are not allowed in texts either. There are better ones: status, message, notify.
WORDS = {
    f"{a}{b}" for a, b in (("to", "ld"), ("te", "ll"), ("tak", "er"), ("culp", "rits"), ("wi", "sh"), ("pla", "ces"))
}
WORDS |= {f"{a}{b}" for a, b in (("tell", "ing"), ("summ", "ing"), ("pati", "ence"), ("bri", "ng"), ("agr", "ee"))}


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Lines and names of the classes, functions and parameters that a module defines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def has_to_be_guessed(name: str) -> bool:
    """Whether a name is one of the classes or words."""
    return name.lstrip("_") in CLASSES or name.strip("_").lower() in WORDS


@pytest.mark.parametrize("name", ["Wanted", "_Seen", "Done", "tell", "_agree"])
def test_such_names_are_found(name: str) -> None:
    assert any(has_to_be_guessed(found) for _line, found in names_in(f"class Box:\n    def {name}(self): ..."))
    assert any(has_to_be_guessed(found) for _line, found in names_in(f"def function({name}): ..."))


def test_python_names_say_what_they_mean(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    checked = [file for file in files if file.suffix == ".py" and file.parts[0] in ("plugins", "roles")]
    assert checked
    assert not [
        f"{file}:{line}: {name}"
        for file in checked
        for line, name in names_in((repository / file).read_text(encoding="utf-8"))
        if has_to_be_guessed(name)
    ]


def test_ansible_variables_say_what_they_mean(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    checked = [file for file in files if file.suffix == ".yml" and file.parts[0] in ("playbooks", "roles")]
    assert checked
    variable = re.compile(rf"\b_?\w*_(?:{'|'.join(sorted(WORDS))})\b")
    assert not [
        f"{file}: {found}" for file in checked for found in variable.findall((repository / file).read_text("utf-8"))
    ]
