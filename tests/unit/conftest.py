# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every import of the collection goes through Ansible's own importer, as it does in a run.

It has to be in place before the first test file is imported: what Python imported by itself, Ansible does not find.
"""

from __future__ import annotations

import pathlib

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(pathlib.Path(__file__).resolve().parents[2] / ".collections")])
