# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which releases can be upgraded to which in one step."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.releases import UnknownRelease, upgrade_problem


@pytest.mark.parametrize(
    ("installed", "target", "words"),
    [
        ("22.05", "22.05", ""),
        ("22.05", "23.02", ""),
        ("22.05", "23.11", ""),
        # as_mysql_convert.c of 24.11: "Database schema is too old for this version of Slurm to upgrade."
        ("22.05", "24.11", "Slurm 24.11 reads the state and the database of 23.02 and later, but 22.05 is installed"),
        ("22.05", "24.05", "First upgrade to a release between 23.02 and 24.05 that reads 22.05."),
        ("23.11", "25.05", ""),
        ("23.11", "25.11", "of 24.05 and later"),
        ("24.11", "26.05", ""),
        ("24.11", "23.11", "Slurm 23.11 is older than the installed 24.11"),
    ],
)
def test_upgrades_are_allowed_only_within_the_supported_range(installed: str, target: str, words: str) -> None:
    problem = upgrade_problem(installed, target)
    assert words in problem
    assert bool(words) == bool(problem)


@pytest.mark.parametrize("text", ["24.12", "22.11", "99", ""])
def test_an_unknown_release_is_named(text: str) -> None:
    with pytest.raises(UnknownRelease, match=f"'{text}' is not a known release of Slurm"):
        upgrade_problem("22.05", text)
