# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module image_generalise, in this process."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.identity import NAMES
from ansible_collections.hpcai.azure.plugins.modules import image_generalise

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A machine with a host key, a log, and a private key that the module does not know."""
    for name, text in {
        "etc/ssh/ssh_host_rsa_key": "-----BEGIN OPENSSH PRIVATE KEY-----",
        "var/log/syslog": "boot",
        "etc/tool/own.pem": "-----BEGIN RSA PRIVATE KEY-----",
    }.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


def test_refuses_without_confirm(root: pathlib.Path, run_module: RunModule) -> None:
    answer = run_module(image_generalise.main, root=str(root))
    assert answer["_exit"] == 1
    assert "nobody can log in" in answer["msg"]
    assert (root / "etc/ssh/ssh_host_rsa_key").exists()


def test_check_mode_lists_what_would_be_removed_without_confirm(root: pathlib.Path, run_module: RunModule) -> None:
    would = run_module(image_generalise.main, check_mode=True, root=str(root))
    assert would["changed"]
    assert (root / "etc/ssh/ssh_host_rsa_key").exists()
    did = run_module(image_generalise.main, root=str(root), confirm=True)
    for key in ("changed", "removed", "emptied", "locked", "private_keys", "diff"):
        assert would[key] == did[key], key
    assert did["removed"] == ["/etc/ssh/ssh_host_rsa_key"]
    assert did["emptied"] == ["/var/log/syslog"]
    again = run_module(image_generalise.main, root=str(root), confirm=True)
    assert (again["changed"], again["removed"], again["emptied"]) == (False, [], [])


def test_lists_private_keys_that_remain(root: pathlib.Path, run_module: RunModule) -> None:
    answer = run_module(image_generalise.main, root=str(root), confirm=True)
    assert answer["private_keys"] == ["/etc/tool/own.pem"]


def test_changes_nothing_if_the_mounts_are_unknown(
    root: pathlib.Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_root: object) -> None:
        raise image_generalise.MountsUnknown("mount /proc in it")

    monkeypatch.setattr(image_generalise, "read_image_mounts", unknown)
    answer = run_module(image_generalise.main, root=str(root), confirm=True)
    assert (answer["_exit"], answer["msg"]) == (1, "mount /proc in it")
    assert (root / "etc/ssh/ssh_host_rsa_key").exists()


def test_the_documented_kinds_are_those_in_the_code() -> None:
    options = yaml.safe_load(image_generalise.DOCUMENTATION)["options"]
    assert options["keep"]["choices"] == list(NAMES)
