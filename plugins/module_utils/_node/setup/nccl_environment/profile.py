# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The drop-in of login shells: defaults that give way to whatever is set already.

Plain POSIX: sh, dash, bash, ksh, and zsh read it. What is set counts, even to nothing. A folder that stands on the path
is not put there again, and ours come last, so that a job's own folders win. An empty entry would mean the current
folder, so none is ever left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PATH = "/etc/profile.d/hpcai-nccl.sh"
LIBRARY_PATH = "LD_LIBRARY_PATH"

_HEADER = "# Written by hpcai.azure.nccl_environment, which overwrites it. What is set already stays as it is.\n"


def profile(variables: Mapping[str, str], folders: Sequence[str]) -> str | None:
    """Return the drop-in's text; None where there is nothing to say.

    :param folders: what goes on the library path.
    """
    lines = [f'[ -n "${{{name}+set}}" ] || export {name}={_quoted(value)}\n' for name, value in variables.items()]
    lines += [_on_the_path(folder) for folder in folders]
    return _HEADER + "".join(lines) if lines else None


def _on_the_path(folder: str) -> str:
    quoted = _quoted(folder)
    return (
        f'case ":${{{LIBRARY_PATH}-}}:" in\n'
        f"  *:{quoted}:*) ;;\n"
        f'  *) export {LIBRARY_PATH}="${{{LIBRARY_PATH}:+${LIBRARY_PATH}:}}"{quoted} ;;\n'
        "esac\n"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
