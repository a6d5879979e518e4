# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layers of settings, merged."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.settings import (
    job_container_lines,
    merged,
    named_for,
    of_release,
)


def test_later_layers_win_and_lists_append_once() -> None:
    layers = [{"A": 1, "L": ["x", "y"], "S": "one"}, {"A": 2, "L": ["y", "z"], "S": ["two"]}]
    assert merged(layers, {}) == {"A": 2, "L": ["x", "y", "z"], "S": ["two"]}


def test_null_says_nothing_in_a_layer_and_deletes_in_the_users_settings() -> None:
    assert merged([{"A": 1}, {"A": None, "B": None}], {}) == {"A": 1}
    assert merged([{"A": 1, "L": ["x"]}], {"A": None, "L": ["y"]}) == {"L": ["y"]}


def test_a_key_of_the_users_is_found_in_any_case() -> None:
    assert merged([{"SchedulerType": "a", "B": 1}], {"schedulertype": "b", "new": 2}) == {
        "SchedulerType": "b",
        "B": 1,
        "new": 2,
    }


def test_a_difference_counts_from_one_release_to_the_one_before_another() -> None:
    differences = [
        {"file": "slurm.conf", "until": "23.11", "settings": {"A": "old"}},
        {"file": "slurm.conf", "since": "23.11", "until": "25.05", "settings": {"A": "new"}},
        {"file": "cgroup.conf", "settings": {"A": "other"}},
    ]
    found = [of_release(differences, "slurm.conf", release) for release in ((22, 5), (23, 11), (24, 11), (25, 5))]
    assert found == [{"A": "old"}, {"A": "new"}, {"A": "new"}, {}]


def test_the_plugin_for_private_folders_has_another_name_from_25_11_on() -> None:
    settings = {"A": 1, "JobContainerType": "job_container/tmpfs"}
    assert named_for(settings, (25, 5)) == settings
    assert named_for(settings, (25, 11)) == {"A": 1, "NamespaceType": "namespace/tmpfs"}
    assert named_for({"A": 1}, (25, 11)) == {"A": 1}


def test_a_line_of_job_container_conf_begins_with_its_folder() -> None:
    assert job_container_lines({}) == []
    [line] = job_container_lines({"AutoBasePath": True, "Dirs": ["/tmp"], "BasePath": "/scratch/tmp"})
    assert list(line) == ["BasePath", "AutoBasePath", "Dirs"]
    lines = job_container_lines({"BasePath": "/s", "InitScript": "/x", "NodeName": "a-[0-1]"})
    assert lines == [{"InitScript": "/x"}, {"NodeName": "a-[0-1]", "BasePath": "/s"}]


def test_settings_without_a_folder_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^job_container\.conf has no BasePath: set it in slurm_job_container_conf"):
        job_container_lines({"AutoBasePath": True})
