# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The version of the collection that this core belongs to."""

from __future__ import annotations

VERSION = "0.2.0"
"""As in galaxy.yml, which is not there on a node."""
