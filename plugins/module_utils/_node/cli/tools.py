# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode tools: whether hpcnode is installed as the module node_tools installs it."""

from __future__ import annotations

import argparse

from ..machine.root import Root
from ..setup.tools import disk
from ..setup.tools.layout import choose_interpreter
from ..setup.tools.payload import ToolsError
from .command import BAD, GOOD, Action, Answer, Command, no_arguments
from .parsing.pages import all_pages

_DESCRIPTION = """\
The installation of hpcnode on this node.
"""
_CHECK = """\
Compares hpcnode, its units, its manual pages and the programs that Slurm calls with what the module
hpcai.azure.node_tools installs, and lists what that module would write and remove. It changes nothing. Run it as root,
which owns these files.

Ansible runs check on a node first, and sends the module to this node only if there is something to change.

Exit status: 0 good, 1 something was changed, is missing or is left over.
"""


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interpreter", metavar="PATH", help="the Python that should run hpcnode (default: the running one)"
    )


def _execute(args: argparse.Namespace) -> Answer:
    try:
        pages = all_pages(args.all_commands())
        _expected, result = disk.compare(Root(args.root), choose_interpreter(args.interpreter), pages)
    except ToolsError as error:
        return Answer(BAD, f"refused: {error}", {"changed": True, "reason": str(error)})
    if not result["changed"]:
        return Answer(GOOD, f"hpcnode {result['version']} is as it was installed", result)
    lines = [f"  {word} {path}" for word, key in (("write", "written"), ("remove", "removed")) for path in result[key]]
    return Answer(BAD, "\n".join(["the module hpcai.azure.node_tools would:", *lines]), result)


COMMAND = Command(
    "tools",
    "whether hpcnode and its units are as they were installed",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(Action("check", "compare hpcnode with what was installed", _CHECK, _add_check),),
)
