# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings file: its defaults, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import beegfs, options
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import (
    BeeondSettings,
    read_settings,
    settings_from,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from .conftest import Node


def test_missing_settings_have_their_defaults(node: Node) -> None:
    assert read_settings(node.root) is None
    node.file("/etc/hpcai/beeond.json", '{"schema": 1, "metadata_nodes": 2}')
    found = read_settings(node.root)
    assert found
    assert (found.metadata_nodes, found.mount_point) == (2, "/beeond")


def test_written_settings_are_read_back_unchanged(node: Node) -> None:
    stated = {
        "interfaces": ["ib0"],
        "client": {"tuneFileCacheType": "native"},
        "servers": {"meta": {"tuneNumWorkers": 8}},
    }
    made = settings_from("", stated)
    node.file("/etc/hpcai/beeond.json", options.as_text(made))
    assert read_settings(node.root) == made
    assert made.servers == {"meta": {"tuneNumWorkers": "8"}}


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"mountpoint": "/x"}, "^has unknown keys mountpoint"),
        ({"mount_point": "beeond"}, "^mount_point must be a plain absolute path, .*, not 'beeond'"),
        ({"mount_point": "/"}, "mount_point must be .*, not '/'"),
        ({"data_root": "/scratch/../etc"}, "data_root must be"),
        ({"data_root": "/scratch/a b"}, "data_root must be"),
        ({"data_root": "/beeond/data"}, "must not be inside each other"),
        ({"metadata_nodes": 0}, "metadata_nodes must be a whole number of 1 or more, not 0"),
        ({"metadata_nodes": True}, "metadata_nodes must be .* not True"),
        ({"port_shift": 60000}, "port_shift must be a whole number from 0 to 57525"),
        ({"rdma": "maybe"}, "rdma must be auto, required, allowed or off, not 'maybe'"),
        ({"release": "8"}, "release must be 7.4, not '8'"),
        ({"start_limit_s": 20}, "start_limit_s must be a number from 30 to 3600, not 20"),
        ({"deadline_s": -1}, "deadline_s must be a number from 0 to 3600, not -1"),
        ({"interfaces": "ib0"}, "interfaces must be a list"),
        ({"client": {"a": "1\nconnDisableAuthentication = true"}}, "client.a must be a value on one line"),
        ({"client": {"a b": 1}}, "a key of client must be of letters and digits"),
        ({"servers": {"mon": {}}}, "servers has unknown keys mon; known are mgmtd, "),
    ],
)
def test_invalid_settings_are_refused(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_from("", stated)


def test_a_newer_schema_is_refused(node: Node) -> None:
    node.file("/etc/hpcai/beeond.json", json.dumps({"schema": 2}))
    with pytest.raises(ConfigError, match="schema 2"):
        read_settings(node.root)


def test_each_allowed_release_has_a_strategy() -> None:
    assert set(options.RELEASES) == set(beegfs.STRATEGIES)
    assert BeeondSettings().release in options.RELEASES
