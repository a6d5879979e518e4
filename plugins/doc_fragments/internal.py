# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of modules that only roles and playbooks of this collection call."""

from __future__ import annotations


class ModuleDocFragment:
    """A note that the module is internal to this collection."""

    DOCUMENTATION = r"""
options: {}
notes:
  - This module is internal. A role or a playbook of this collection calls it, and its options may change with any
    release. Use that role or playbook instead.
"""
