# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the keys that the role accepts for this release with those that Slurm's programs accept."""

from __future__ import annotations

import pytest
from testinfra.host import Host

from simulated.slurm_keys import SLURMD, UNKNOWN_KEY, compare_slurm_conf, keys_by_role, refused_by_slurm, release_on


def test_accepted_keys_of_slurm_conf_match_slurms_programs(controller: Host) -> None:
    found, expected = compare_slurm_conf(controller.check_output)
    assert found == expected


@pytest.mark.parametrize("file", ["cgroup.conf", "job_container.conf"])
def test_accepted_keys_of_slurmds_files_match_slurmd(controller: Host, computes: list[Host], file: str) -> None:
    """A slurmd that accepts its keys runs until its timeout, so it gets all accepted keys at once."""
    accepted, refused = keys_by_role(file, release_on(controller.check_output))
    groups = [accepted, *([key] for key in (*refused, UNKNOWN_KEY))]
    assert refused_by_slurm(computes[0].check_output, file, groups, SLURMD) == refused | {UNKNOWN_KEY}
