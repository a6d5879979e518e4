# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode tools: whether hpcnode itself is as the module node_tools installs it."""

from __future__ import annotations

import argparse

from ..machine.root import Root
from ..setup.tools import disk
from ..setup.tools.layout import choose_interpreter
from ..setup.tools.payload import ToolsError
from .command import BAD, GOOD, Answer, Command

_DESCRIPTION = """\
check says whether hpcnode, its units and the programs that Slurm calls are as the module hpcai.azure.node_tools
installs them, and what that module would write and remove. It changes nothing. Run it as root, who owns all of it.

The module asks it before it is sent to a node.

Exit status 1: something was changed, is missing or is left over.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("check",), help="what to do")
    parser.add_argument(
        "--interpreter", metavar="PATH", help="the Python that should run hpcnode (the one that runs it)"
    )


def _execute(args: argparse.Namespace) -> Answer:
    try:
        _expected, result = disk.compare(Root(args.root), choose_interpreter(args.interpreter))
    except ToolsError as error:
        return Answer(BAD, f"refused: {error}", {"changed": True, "reason": str(error)})
    if not result["changed"]:
        return Answer(GOOD, f"hpcnode {result['version']} is as it was installed", result)
    lines = [f"  {word} {path}" for word, key in (("write", "written"), ("remove", "removed")) for path in result[key]]
    return Answer(BAD, "\n".join(["the module hpcai.azure.node_tools would:", *lines]), result)


COMMAND = Command(
    "tools",
    "hpcnode itself: whether it is as it was installed",
    _DESCRIPTION,
    _add_arguments,
    _execute,
)
