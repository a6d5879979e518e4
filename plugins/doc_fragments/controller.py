# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of the modules whose work an action plugin does on the control node."""

from __future__ import annotations


class ModuleDocFragment:
    """Where the module runs."""

    DOCUMENTATION = r"""
options: {}
attributes:
  action:
    description: Always runs on the control node, whichever host the task is for.
    support: full
  platform:
    description: The control node needs Linux. The module runs nothing on a node.
    platforms: linux
    support: full
"""
