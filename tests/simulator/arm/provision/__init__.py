# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making, changing and deleting resources, by single requests and by deployments.

``kinds`` has what all types of resources have in common; ``network``, ``interfaces``, ``machines``, ``sets`` and
``services`` have what is special. ``rights`` knows who may do what, ``changes`` has the steps of a PUT, a PATCH and a
DELETE, ``deploying`` and ``whatif`` those of deployments.
"""
