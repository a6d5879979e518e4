# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change of a key needs, by release."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import effects, known_keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.effects import Need, Release

OLD: Release = (22, 5)
NEW: Release = (24, 11)
NOTHING, RECONFIGURE, RESTART = Need.NOTHING, Need.RECONFIGURE, Need.RESTART


@pytest.mark.parametrize(
    ("key", "release", "slurmctld", "slurmd"),
    [
        ("SchedulerParameters", OLD, RECONFIGURE, RECONFIGURE),
        ("SlurmdTimeout", OLD, RECONFIGURE, RECONFIGURE),
        ("MaxJobCount", OLD, RESTART, RECONFIGURE),
        ("maxjobcount", NEW, RECONFIGURE, RECONFIGURE),
        ("TaskPlugin", OLD, RECONFIGURE, RESTART),
        ("TaskPlugin", NEW, RECONFIGURE, RECONFIGURE),
        ("ProctrackType", OLD, RESTART, RESTART),
        ("GresTypes", OLD, RESTART, RESTART),
        ("SlurmctldPort", NEW, RESTART, RECONFIGURE),
        ("SlurmdPort", NEW, RECONFIGURE, RESTART),
        ("AuthType", NEW, RESTART, RESTART),
        ("KeyOfTheFuture", NEW, RESTART, RESTART),
        ("KeyOfTheFuture", OLD, RESTART, RESTART),
    ],
)
def test_each_key_needs_what_the_manual_says(key: str, release: Release, slurmctld: Need, slurmd: Need) -> None:
    effect = effects.effect_of(key, release)
    assert (effect.slurmctld, effect.slurmd) == (slurmctld, slurmd)
    assert effect.source


def test_keys_with_an_effect_of_their_own_are_keys_of_slurm() -> None:
    named = {
        key for name, keys in vars(effects).items() if name.isupper() and isinstance(keys, frozenset) for key in keys
    }
    assert len(named) > 40
    assert named <= known_keys.ALL


def test_what_loses_jobs_says_so() -> None:
    assert effects.effect_of("SelectType", OLD).loses_jobs
    assert effects.effect_of("StateSaveLocation", NEW).loses_jobs
    assert effects.effect_of_partitions(is_removed=True).loses_jobs
    assert not effects.effect_of_partitions(is_removed=False).loses_jobs
    assert not effects.effect_of("ProctrackType", OLD).loses_jobs


def test_slurmctld_of_old_is_never_reconfigured_with_other_nodes() -> None:
    """It would end: "hostnames inconsistency detected"."""
    assert effects.effect_of_nodes((23, 11)).slurmctld is RESTART
    assert effects.effect_of_nodes((24, 11)).slurmctld is RECONFIGURE
    assert effects.effect_of_own_hardware(OLD).slurmd is RESTART


@pytest.mark.parametrize(
    ("name", "release", "slurmctld", "slurmd"),
    [
        ("topology.conf", OLD, RECONFIGURE, RECONFIGURE),
        ("cgroup.conf ConstrainCores", OLD, RECONFIGURE, RECONFIGURE),
        ("cgroup.conf CgroupPlugin", OLD, RESTART, RESTART),
        ("gres.conf", OLD, RESTART, RESTART),
        ("gres.conf", NEW, RESTART, RECONFIGURE),
        ("plugstack.conf", OLD, RECONFIGURE, RESTART),
        ("job_container.conf", OLD, NOTHING, RESTART),
        ("job_container.conf", NEW, RECONFIGURE, RESTART),
        ("future.conf", NEW, RESTART, RESTART),
    ],
)
def test_each_file_needs_what_its_manual_says(name: str, release: Release, slurmctld: Need, slurmd: Need) -> None:
    effect = effects.effect_of_file(name, release)
    assert (effect.slurmctld, effect.slurmd) == (slurmctld, slurmd)
    assert effect.needs_idle_node == (name == "job_container.conf")
