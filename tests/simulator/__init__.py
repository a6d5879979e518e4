# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated piece of Azure: Resource Manager, instance metadata, and machines behind them.

Run ``PYTHONPATH=tests python -m simulator --help``. What it is not: Azure. It answers the calls that this
collection makes, in the shape of the examples that Azure publishes, and keeps state.
"""

from __future__ import annotations

TOKEN = "simulated-token"
"""The one bearer token that the simulated Resource Manager accepts."""

LOOPBACK = "127.0.0.1"
"""Resource Manager and the admin calls listen here only."""
