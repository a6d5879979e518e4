# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which release knows which key."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.releases import check_keys, release_of, shown


@pytest.mark.parametrize(
    ("text", "release"),
    [("22.05", (22, 5)), ("22.05.8", (22, 5)), ("25.11.0-1", (25, 11)), (23.11, (23, 11)), ("24.11.5~rc1", (24, 11))],
)
def test_a_release_or_a_version(text: Any, release: tuple[int, int]) -> None:
    assert release_of(text) == release


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "^it is not known which Slurm the controller runs: set slurm_release"),
        (None, "set slurm_release"),
        ("21.08.5", "^slurm_release is 21.08.5: releases before 22.05"),
        ("newest", "^slurm_release is 'newest': it must be a release such as '24.11'"),
        (24.1, "^slurm_release is 24.1: it must be"),
    ],
)
def test_says_what_is_wrong_with_a_release(text: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        release_of(text)


def test_a_release_is_shown_as_slurm_writes_it() -> None:
    assert shown((22, 5)) == "22.05"


@pytest.mark.parametrize(
    ("file", "key", "before", "since"),
    [
        ("slurm.conf", "MaxBatchRequeue", (22, 5), (23, 2)),
        ("slurm.conf", "HashPlugin", (23, 11), (24, 5)),
        ("slurm.conf", "DataParserParameters", (24, 5), (24, 11)),
        ("slurm.conf", "PrologTimeout", (24, 11), (25, 5)),
        ("slurm.conf", "namespacetype", (25, 5), (25, 11)),
        ("slurm.conf", "HealthCheckTimeout", (25, 11), (26, 5)),
        ("cgroup.conf", "EnableControllers", (23, 2), (23, 11)),
        ("cgroup.conf", "CgroupSlice", (25, 5), (25, 11)),
        ("job_container.conf", "Dirs", (22, 5), (23, 2)),
        ("job_container.conf", "EntireStepInNS", (24, 5), (24, 11)),
    ],
)
def test_keys_that_came(file: str, key: str, before: tuple[int, int], since: tuple[int, int]) -> None:
    check_keys(file, [key], since)
    with pytest.raises(ConfigError, match=f"^{file}: {key} came with Slurm {shown(since)}, and slurm_release is"):
        check_keys(file, [key], before)


@pytest.mark.parametrize(
    ("file", "key", "last", "gone"),
    [
        ("slurm.conf", "SlurmctldPlugstack", (22, 5), (23, 2)),
        ("slurm.conf", "SchedulerAuth", (23, 11), (24, 5)),
        ("slurm.conf", "AccountingStorageLoc", (25, 5), (25, 11)),
        ("cgroup.conf", "ConstrainKmemSpace", (23, 2), (23, 11)),
        ("cgroup.conf", "CgroupAutomount", (22, 5), (23, 11)),
        ("cgroup.conf", "CgroupReleaseAgentDir", (25, 5), (25, 11)),
    ],
)
def test_keys_that_went(file: str, key: str, last: tuple[int, int], gone: tuple[int, int]) -> None:
    check_keys(file, [key], last)
    with pytest.raises(ConfigError, match=f"^{file}: {key} is gone since Slurm {shown(gone)}, and slurm_release is"):
        check_keys(file, [key], gone)


def test_what_is_the_same_in_all_releases_is_not_looked_at() -> None:
    check_keys("slurm.conf", ["ClusterName", "NoSuchKey"], (22, 5))
    check_keys("gres.conf", ["Name"], (22, 5))
