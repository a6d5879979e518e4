# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the joint archive says about machines from which nothing was collected."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.action import diag_bundle


def test_faulty_nodes_that_are_not_in_the_inventory_are_listed_with_a_problem() -> None:
    reasons = {"spot-1": "hpcai: health: gpu_count", "spot-0": "Not responding"}
    first, second = diag_bundle._unlisted(reasons, False)
    assert (first.host, first.reason, second.host) == ("spot-0", "Not responding", "spot-1")
    assert "not a compute node of the inventory" in first.problem
    assert not first.path
    assert [(one.host, one.reason) for one in diag_bundle._unlisted(reasons, True)] == [
        ("unlisted-1", ""),
        ("unlisted-2", ""),
    ]
