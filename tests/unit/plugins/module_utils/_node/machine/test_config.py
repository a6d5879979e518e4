# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that Ansible wrote on the node: used if they are valid, else refused with the file's name."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import record, string
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import (
    SCHEMA,
    ConfigError,
    as_config,
    read_checked,
    read_config,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


def write(root: pathlib.Path, text: str) -> pathlib.Path:
    """Write /etc/hpcai/scratch.json below a root."""
    file = root / "etc/hpcai/scratch.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_written_settings_are_read_back_unchanged(tmp_path: pathlib.Path) -> None:
    settings = {"mountpoint": "/scratch", "devices": ["/dev/nvme0n1"], "chunk": None}
    write(tmp_path, as_config(settings))
    assert read_config(Root(str(tmp_path)), "scratch") == settings


def test_a_missing_file_is_no_error(tmp_path: pathlib.Path) -> None:
    assert read_config(Root(str(tmp_path)), "scratch") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not valid JSON"),
        ('{"schema": 1', "is not valid JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "has no schema version"),
        ('{"schema": "1"}', "has no schema version"),
        ('{"schema": true}', "has no schema version"),
        ('{"schema": 0}', "has no schema version"),
        (json.dumps({"schema": SCHEMA + 1}), f"has schema {SCHEMA + 1}, but this hpcnode supports at most {SCHEMA}"),
    ],
)
def test_an_invalid_file_is_refused_and_named(tmp_path: pathlib.Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_config(Root(str(tmp_path)), "scratch")
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_an_error_and_not_a_missing_one(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc/hpcai/scratch.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(Root(str(tmp_path)), "scratch")


def test_the_text_of_a_settings_file_does_not_depend_on_the_order() -> None:
    assert as_config({"b": 1, "a": 2}) == as_config({"a": 2, "b": 1})
    assert as_config({"a": 2}).endswith("}\n")


def test_invalid_settings_are_refused_with_the_file_and_what_to_do(tmp_path: pathlib.Path) -> None:
    root, form = Root(str(tmp_path)), record({"mountpoint": string})
    assert read_checked(root, "scratch", form) is None
    file = write(tmp_path, as_config({"mountpoint": "/fast"}))
    assert read_checked(root, "scratch", form) == {"mountpoint": "/fast"}
    file.write_text(as_config({"mountpoint": 1}), encoding="utf-8")
    words = f"{file}: mountpoint must be a string, not 1. Correct the inventory and run the playbook again"
    with pytest.raises(ConfigError, match=words):
        read_checked(root, "scratch", form)
