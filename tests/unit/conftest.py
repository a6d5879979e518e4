# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For all unit tests: import the collection as Ansible does."""

from __future__ import annotations

from collection import import_as_ansible_does

import_as_ansible_does()
