# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the directories: invalid ones are refused, and the sets of several roles are merged."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.options import (
    parse,
    read_options,
    with_set,
    without_set,
)

from .machine import Machine

SETTINGS = "etc/hpcai/directories.json"


def one(**folder: Any) -> dict[str, Any]:
    """Settings with one directory."""
    return {"folders": {"site": [{"path": "a", **folder}]}}


def test_parents_come_before_their_subdirectories() -> None:
    options = parse(
        {"folders": {"b": [{"path": "x/y/z"}, {"path": "x-1"}], "a": [{"path": "/scratch/x"}, {"path": "x/y/"}]}}
    )
    assert [folder.path for folder in options.folders] == ["x", "x/y", "x/y/z", "x-1"]
    assert (options.mountpoint, options.fallback) == ("/scratch", ("temporary_disk", "directory"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (one(path="../etc"), "must be a directory below /scratch without '.' and '..'"),
        (one(path="a/../../etc"), "without '.' and '..'"),
        (one(path="./a"), "without '.' and '..'"),
        (one(path=""), "must be a directory below /scratch"),
        (one(path="/scratch"), "is not below /scratch"),
        (one(path="/etc/a"), "/etc/a of site is not below /scratch"),
        (one(path="/scratch2/a"), "is not below /scratch"),
        (one(mode="0777"), "a of site: mode 0777 lets every user delete the files of others. Use 1777"),
        (one(mode="2772"), "Use 3772"),
        (one(mode="rwx"), "folders.site[0].mode must be octal digits"),
        (one(recurse=True), "folders.site[0] has unknown keys recurse; known are path, owner, group, mode"),
        ({"folders": {"site": [{}]}}, "folders.site[0] lacks path"),
        ({"folders": {"site": "a"}}, "must be a list"),
        ({"folders": ["a"]}, "must be a mapping"),
        ({"folders": {"a b": []}}, "a key of folders must be a name of letters"),
        ({"folders": {"a": [{"path": "x"}], "b": [{"path": "/scratch/x", "mode": "0700"}]}}, "Make them equal"),
        ({"fallback": ["tmpfs"]}, "fallback[0] must be temporary_disk or directory, not 'tmpfs'"),
        ({"fallback": "directory"}, "fallback must be a list"),
        ({"mountpoint": "/"}, "mountpoint must be an absolute path"),
        ({"mountpoint": "/var"}, "belongs to the operating system"),
        ({"mountpoint": 7}, "mountpoint must be an absolute path without '..', not 7"),
        ({"mountpoint": "/mnt/scratch", "temporary_mounts": ["/mnt"]}, "is below /mnt, where the temporary disk"),
        ({"mountpoints": ["/scratch"]}, "unknown keys mountpoints; known are mountpoint, "),
    ],
)
def test_invalid_settings_are_refused_and_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(settings)
    assert words in str(refused.value)


def test_world_writable_with_the_sticky_bit_is_allowed() -> None:
    assert parse(one(mode="1777")).folders[0].mode == 0o1777


def test_each_role_has_its_own_set(machine: Machine) -> None:
    with_set(machine.root, "site", [{"path": "jobs"}], {"mountpoint": "/fast"}).file.apply()
    with_set(machine.root, "enroot", [{"path": "enroot", "mode": "0711"}], {"mountpoint": None}).file.apply()
    options = read_options(machine.root)
    assert options is not None
    assert [(folder.path, folder.named) for folder in options.folders] == [("enroot", "enroot"), ("jobs", "site")]
    assert options.mountpoint == "/fast"
    assert not with_set(machine.root, "site", [{"path": "jobs"}], {}).file.changes
    with_set(machine.root, "site", [], {}).file.apply()
    without_set(machine.root, "other").file.apply()
    remaining = read_options(machine.root)
    assert remaining is not None
    assert [folder.path for folder in remaining.folders] == ["enroot"]


def test_removing_a_set_without_a_file_changes_nothing(machine: Machine) -> None:
    assert not without_set(machine.root, "site").file.changes
    assert not without_set(machine.root, None).file.changes


def test_conflicting_sets_leave_the_file_unchanged(machine: Machine) -> None:
    with_set(machine.root, "site", [{"path": "jobs"}], {}).file.apply()
    before = machine.path(SETTINGS).read_bytes()
    with pytest.raises(ConfigError, match="site requires jobs root:root 0755, but other requires alice:root 0755"):
        with_set(machine.root, "other", [{"path": "jobs", "owner": "alice"}], {})
    assert machine.path(SETTINGS).read_bytes() == before


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": 9}', '{"schema": 1, "folders": []}'])
def test_an_invalid_file_is_an_error_at_boot_and_rewritten_by_the_role(machine: Machine, text: str) -> None:
    machine.file(SETTINGS, text)
    with pytest.raises(ConfigError, match=SETTINGS):
        read_options(machine.root)
    change = with_set(machine.root, "site", [{"path": "jobs"}], {})
    assert "The file is rewritten" in change.warnings[0]
    change.file.apply()
    assert read_options(machine.root) is not None
