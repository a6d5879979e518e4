# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of modules that run on the nodes. A module documents only its differences."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes that the modules for nodes have in common."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Reports in check mode what it would do, without changing anything.
    support: full
  diff_mode:
    description: Shows the content of each changed file before and after.
    support: full
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: Works on Linux with Python 3.9 or later.
    platforms: linux
    support: full
"""
