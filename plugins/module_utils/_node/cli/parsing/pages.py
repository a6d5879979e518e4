# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files that are generated from hpcnode's parser: manual pages, and completion in bash and zsh."""

from __future__ import annotations

from collections.abc import Sequence

from ...setup.tools.share import Pages
from ..command import Command
from .completion import bash_completion, zsh_completion
from .manual import manual_pages
from .outline import outline
from .parser import build_parser


def all_pages(commands: Sequence[Command]) -> Pages:
    """Return the pages of all commands. They do not depend on this machine or on its Python.

    :param commands: all commands of ``cli.main``, which no command can import, because it imports them all.
    """
    root = outline(build_parser(commands))
    return Pages(manual_pages(root), bash_completion(root), zsh_completion(root))
