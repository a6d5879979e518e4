# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Import the collection through Ansible's importer, as a run does.

A conftest must call this before the first test file is imported: Ansible does not find modules that Python has imported
without its importer.
"""

from __future__ import annotations

import pathlib

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

COLLECTIONS = pathlib.Path(__file__).resolve().parents[1] / ".collections"


def import_as_ansible_does() -> None:
    """Make every import of the collection go through Ansible's importer."""
    if not AnsibleCollectionConfig.collection_finder:
        init_plugin_loader([str(COLLECTIONS)])
