# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The file that tells slurmd its name and its controllers."""

from __future__ import annotations

from collections.abc import Iterable

from ..machine.root import Root

ENV_FILE = "/etc/hpcai/slurmd.env"
HEADER = "# Written by hpcnode at the machine's start, and again at the next. site.yml replaces it for good."
"""How a file begins that the node wrote; any other one is the site's, and not touched."""


def slurmd_env(node_name: str, controllers: Iterable[str]) -> str:
    """Return the text of the file; slurmd fetches all else from the first controller that answers."""
    return f'{HEADER}\nSLURMD_OPTIONS="-N {node_name} --conf-server {",".join(controllers)}"\n'


def is_ours(root: Root) -> bool:
    """Whether the file is there and the node wrote it."""
    return (root.text(ENV_FILE) or "").startswith(HEADER)
