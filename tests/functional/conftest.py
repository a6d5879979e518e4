# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all functional tests stand on: the collection is imported as Ansible imports it, from the first file on.

What Python imported by itself, Ansible's own importer does not find any more.
"""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

if not AnsibleCollectionConfig.collection_finder:
    init_plugin_loader([str(Path(__file__).resolve().parents[2] / ".collections")])
