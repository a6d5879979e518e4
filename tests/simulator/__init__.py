# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulation of parts of Azure: Resource Manager, instance metadata, and machines.

Run ``PYTHONPATH=tests python -m simulator --help``. It is not Azure: it answers only the calls that this collection
makes, in the format of Azure's published examples, and keeps state.
"""

from __future__ import annotations

TOKEN = "simulated-token"
"""The one bearer token that the simulated Resource Manager accepts."""

LOOPBACK = "127.0.0.1"
"""Resource Manager and the admin interface listen only on this address."""
