#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the page of all variables, docs/docsite/rst/role_variables.rst.

Its tables come from the roles' argument_specs, the comments at the beginning of the playbooks, and the comments of the
variables for ssh in inventories/azure.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/docsite/rst/role_variables.rst"
HEAD = """\
..
  Copyright (c) 2026, hpcai.azure contributors
  GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

.. Written by tests/setup/role_variables.py.

.. _ansible_collections.hpcai.azure.docsite.role_variables:

Role variables
==============

This page lists the public variables of the roles, with their defaults and the first sentence of their descriptions. The
page of a role has the full descriptions. If the default is empty here, the value is derived, for example from another
variable, the VM size or an environment variable. Only ``hpcai_stack`` has no default. The last two tables list the
variables of the `Playbooks`_, and those of the `Connection`_ to the nodes.
"""
SSH = "inventories/azure/group_vars/azure_hosts/ssh.yml"
MARKUP = re.compile(r"\b([A-Z]{1,3})\(((?:[^()\\]|\\.)*)\)")
COMMENTED = re.compile(r"^(?: {2})?(?P<name>[a-z]+(?:_[a-z]+)*) {2,}(?P<text>\S.*)")
NAME = re.compile(r"(?<![\w/.-])[a-z]+(?:_[a-z]+)+(?![\w/.-])")
SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z`])")


def page(repository: pathlib.Path) -> str:
    """Return the page's text."""
    parts = [HEAD]
    for specs in sorted(repository.glob("roles/*/meta/argument_specs.yml")):
        parts.append("\n" + "\n".join(section(specs.parents[1])) + "\n")
    for lines in (of_playbooks(repository), of_the_connection(repository)):
        parts.append("\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def section(role: pathlib.Path) -> Iterator[str]:
    """Yield the lines about a role."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    file = role / "defaults/main.yml"
    defaults = (yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else None) or {}
    title = f":ansplugin:`hpcai.azure.{role.name}#role`"
    yield from (title, "-" * len(title), "")
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 28 8 16 48", "")
    yield from ("   * - variable", "     - type", "     - default", "     - meaning")
    for name, option in specs["main"]["options"].items():
        words = SENTENCE.split(plain(option["description"]))[0]
        yield from (f"   * - ``{name}``", f"     - {option.get('type', 'str')}")
        yield from (f"     - {default_of(defaults.get(name, option.get('default')))}".rstrip(), f"     - {words}")


def of_playbooks(repository: pathlib.Path) -> Iterator[str]:
    """Yield the lines about the variables that playbooks read."""
    yield from ("Playbooks", "---------", "", ".. list-table::", "   :header-rows: 1", "   :widths: 28 16 56", "")
    yield from ("   * - variable", "     - playbook", "     - meaning")
    for playbook in sorted(repository.glob("playbooks/*.yml")):
        for name, words in commented(playbook.read_text(encoding="utf-8")):
            yield from (f"   * - ``{name}``", f"     - ``{playbook.stem}``", f"     - {marked(words)}")


def commented(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables in a playbook's first comment: a name, two spaces and the meaning, which may continue."""
    found: list[list[str]] = []
    column = 0
    for line in text.partition("\n---\n")[2].partition("\n- name:")[0].splitlines():
        comment = line.removeprefix("#").removeprefix(" ")
        if row := COMMENTED.match(comment):
            found.append([row["name"], row["text"]])
            column = row.start("text")
        elif found and column and comment.startswith(" " * column) and comment.strip():
            found[-1].append(comment.strip())
        else:
            column = 0
    for name, *words in found:
        yield name, " ".join(words)


def of_the_connection(repository: pathlib.Path) -> Iterator[str]:
    """Yield the lines about the variables for ssh: a comment's first sentence, above the variable."""
    yield from ("Connection", "----------", "", f"The file :file:`{SSH}` of the collection sets these variables.", "")
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 28 72", "", "   * - variable", "     - meaning")
    text = (repository / SSH).read_text(encoding="utf-8")
    for comment, name in re.findall(r"((?:^#.*\n)+)(hpcai_\w+):", text, re.MULTILINE):
        words = " ".join(line.lstrip("# ") for line in comment.splitlines())
        yield from (f"   * - ``{name}``", f"     - {marked(SENTENCE.split(words)[0])}")


def marked(words: str) -> str:
    """Return a text with names of variables as literals."""
    return NAME.sub(r"``\g<0>``", words)


def plain(description: str | list[str]) -> str:
    """Return the first paragraph of a description with Ansible's markup as literals."""
    text = description if isinstance(description, str) else description[0]
    return MARKUP.sub(literal, " ".join(text.split()))


def literal(found: re.Match[str]) -> str:
    """Return marked text as a literal: an option without its role, a plugin without its kind, a URL unchanged."""
    kind, text = found.groups()
    if kind == "U":
        return str(text)
    return f"``{text.rpartition(':')[2].partition('#')[0] if kind in ('O', 'RV', 'P') else text}``"


def default_of(value: Any) -> str:
    """Return a default as YAML, or an empty text if an expression derives it."""
    if value is None or (isinstance(value, str) and "{{" in value):
        return ""
    text = value if isinstance(value, str) and value else yaml.safe_dump(value, default_flow_style=True, width=10**6)
    text = text.removesuffix("\n").removesuffix("\n...")
    return f"``{text}``" if len(text) <= 40 else "see the role"


if __name__ == "__main__":
    PAGE.write_text(page(REPOSITORY), encoding="utf-8")
