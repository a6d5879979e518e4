# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a Slurm upgrade."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.upgrade import plan


def test_finds_the_oldest_version_and_the_pending_machines() -> None:
    found = plan({"ctl": "23.11.4", "n10": "22.05.8", "n9": "22.05.8", "new": None}, "23.11")
    assert found == {
        "oldest": "22.05.8",
        "pending": ["n9", "n10", "new"],
        "found": "22.05.8 on n9, n10; 23.11.4 on ctl; no Slurm on new",
    }


def test_the_target_can_be_a_version_or_a_prefix_of_it() -> None:
    assert plan({"ctl": "24.11.5"}, "24.11")["pending"] == []
    assert plan({"ctl": "24.11.5"}, "24.11.5-1")["pending"] == []
    assert plan({"ctl": "24.11.4"}, "24.11.5")["pending"] == ["ctl"]


def test_versions_are_compared_as_numbers() -> None:
    assert plan({"a": "22.05.11", "b": "22.05.9"}, "23.11")["oldest"] == "22.05.9"


def test_machines_without_slurm_are_pending() -> None:
    assert plan({"a": None}, "23.11") == {"oldest": "", "pending": ["a"], "found": "no Slurm on a"}
