# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode clocks where no driver is asked: arguments, the settings file, another root."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import clocks
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import UNKNOWN, Answer, UsageError
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.parser import build_parser
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError


def call(root: pathlib.Path, *arguments: str) -> Answer:
    """Run the command on a captured tree."""
    words = ["--root", str(root), "clocks", *arguments]
    return clocks.COMMAND.execute(build_parser([clocks.COMMAND]).parse_args(words))


def wish(root: pathlib.Path, text: str) -> None:
    """Write the settings file."""
    (root / "etc/hpcai").mkdir(parents=True)
    (root / "etc/hpcai/clocks.json").write_text(text, encoding="utf-8")


def test_a_captured_tree_has_no_driver_to_ask(tmp_path: pathlib.Path) -> None:
    wish(tmp_path, json.dumps({"schema": 1, "state": "max"}))
    answer = call(tmp_path)
    assert (answer.status, answer.data["wanted"]["state"], answer.data["gpus"]) == (UNKNOWN, "max", [])


@pytest.mark.parametrize("action", ["apply", "reset"])
def test_a_captured_tree_is_not_changed(tmp_path: pathlib.Path, action: str) -> None:
    with pytest.raises(UsageError, match="works on the running machine only"):
        call(tmp_path, action)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 1, "speed": "max"}',
        '{"schema": 1, "state": "fast"}',
        '{"schema": 1, "gpus": 3}',
        '{"schema": 9}',
        "{",
    ],
)
def test_settings_that_make_no_sense_are_told_with_their_file(tmp_path: pathlib.Path, text: str) -> None:
    wish(tmp_path, text)
    with pytest.raises(ConfigError, match=r"etc/hpcai/clocks\.json"):
        call(tmp_path)
