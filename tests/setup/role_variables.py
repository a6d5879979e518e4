#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the page of all role variables, docs/docsite/rst/role_variables.rst, from the roles' argument_specs."""

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
value of a variable without a default is derived from other variables. The page of a role has the full descriptions.
"""
MARKUP = re.compile(r"\b([A-Z]{1,3})\(((?:[^()\\]|\\.)*)\)")
SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z`])")


def page(repository: pathlib.Path) -> str:
    """Return the page's text."""
    parts = [HEAD]
    for specs in sorted(repository.glob("roles/*/meta/argument_specs.yml")):
        parts.append("\n" + "\n".join(section(specs.parents[1])) + "\n")
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
