# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a job requests BeeOND, by its constraint."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.request import (
    has_feature,
    requests_beeond,
)


@pytest.mark.parametrize(
    "constraint",
    [
        "beeond",
        "beeond&a100",
        "a100&beeond",
        "[rack1|beeond]",
        "beeond*2",
        "(a100&beeond)*2&ib200",
        "a,beeond",
        "x|beeond",
    ],
)
def test_the_feature_is_found_anywhere_in_a_constraint(constraint: str) -> None:
    assert has_feature(constraint)


@pytest.mark.parametrize(
    "constraint", ["", "nobeeond", "beeond2", "a100", "beeond-old&a100", "my_beeond", "2*beeond_x"]
)
def test_features_with_similar_names_do_not_match(constraint: str) -> None:
    assert not has_feature(constraint)


def test_a_job_without_a_constraint_does_not_request_it() -> None:
    assert not requests_beeond({"SLURM_JOB_ID": "17"})
    assert requests_beeond({"SLURM_JOB_CONSTRAINTS": "beeond&a100"})
