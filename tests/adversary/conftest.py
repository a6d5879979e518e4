# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attacks run against the cluster that the Molecule scenario ``cluster`` has converged."""

from __future__ import annotations

from simulated.hosts import alice, azure, bob, computes, controller, eventually, inventory, inventory_source, node

__all__ = ["alice", "azure", "bob", "computes", "controller", "eventually", "inventory", "inventory_source", "node"]
