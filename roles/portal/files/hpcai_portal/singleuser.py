# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JupyterHub's single-user server, which also ends if it is idle and a browser shows it.

While JupyterLab is visible in a browser, it asks for the lists of kernels, terminals and files and saves its layout
every few seconds, and Jupyter Server counts these requests as activity
(https://github.com/jupyterlab/jupyterlab/issues/19796). Here only requests that change something count, except the
layout. Kernels and terminals record their own activity.
"""

from __future__ import annotations

import sys
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyterhub.singleuser import main

_count = APIHandler.update_api_activity


def _count_changes(handler: Any) -> None:
    is_layout = handler.request.path.startswith(f"{handler.base_url}lab/api/workspaces/")
    if handler.request.method not in ("GET", "HEAD") and not is_layout:
        _count(handler)


APIHandler.update_api_activity = _count_changes

if __name__ == "__main__":
    sys.exit(main())
