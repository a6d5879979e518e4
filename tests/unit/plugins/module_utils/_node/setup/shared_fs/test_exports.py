# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exports of an NFS server: to the cluster's subnets, and to nobody else."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs import exports
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs.options import SharedProblem

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


def on_azure(command: Sequence[str]) -> Result:
    """A machine in 10.0.0.0/24 with a second interface, of containers."""
    answers: dict[str, Any] = {
        "route": [{"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"}],
        "eth0": [
            {
                "ifname": "eth0",
                "addr_info": [
                    {"family": "inet", "local": "10.0.0.4", "prefixlen": 24, "scope": "global"},
                    {"family": "inet", "local": "169.254.1.1", "prefixlen": 16, "scope": "link"},
                ],
            }
        ],
    }
    name = "route" if "route" in command else command[-1]
    return Result(tuple(command), 0, json.dumps(answers[name]), "")


def text(*items: dict[str, Any], networks: Sequence[str] = ("local",), public: bool = False) -> str | None:
    """The file for these."""
    return exports.text(exports.parse(items), networks, on_azure, public)


def test_exports_go_to_the_servers_subnet_by_default() -> None:
    assert text({"path": "/shared"}) == (
        f"{exports.HEADER}\n/shared 10.0.0.0/24(rw,sync,no_subtree_check,root_squash)\n"
    )


def test_addresses_in_the_subnet_are_not_named_again_and_others_are() -> None:
    shown = text({"path": "/shared", "options": ["ro"]}, networks=["10.0.0.5", "local", "10.0.9.7", "10.0.8.0/24"])
    assert shown is not None
    assert shown.splitlines()[1] == "/shared 10.0.0.0/24(ro) 10.0.8.0/24(ro) 10.0.9.7(ro)"


def test_an_export_may_have_networks_of_its_own() -> None:
    shown = text({"path": "/apps", "networks": ["10.0.3.0/24"]}, {"path": "/shared"})
    assert shown is not None
    assert [line.partition("(")[0] for line in shown.splitlines()[1:]] == ["/apps 10.0.3.0/24", "/shared 10.0.0.0/24"]


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("0.0.0.0/0", "0.0.0.0/0 includes everybody"),
        ("::/0", "::/0 includes everybody"),
        ("20.1.2.0/24", "20.1.2.0/24 is not a private network"),
        ("10.0.0.0/7", "10.0.0.0/7 is not a private network"),
        ("100.64.0.0/10", "is not a private network"),
        ("*", "is neither a network nor an address"),
        ("node-1", "is neither a network nor an address"),
    ],
)
def test_refuses_networks_that_it_must_not_trust(network: str, words: str) -> None:
    with pytest.raises(SharedProblem, match=words.replace("*", r"\*")):
        text({"path": "/shared"}, networks=[network])


def test_other_networks_are_taken_on_purpose_and_everybody_never() -> None:
    shown = text({"path": "/shared"}, networks=["20.1.2.0/24"], public=True)
    assert shown is not None
    assert "20.1.2.0/24(" in shown
    with pytest.raises(SharedProblem, match="everybody"):
        text({"path": "/shared"}, networks=["0.0.0.0/0"], public=True)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"path": "/"}, "must not be /"),
        ({"path": "//"}, "must not be /"),
        ({"path": "/etc"}, "operating system"),
        ({"path": "/shared", "options": ["rw)", "x"]}, "is not an option"),
        ({"path": "/shared", "mode": "rwx"}, "octal digits"),
    ],
)
def test_refuses_what_must_not_be_exported(item: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        exports.parse([item])


def test_a_folder_is_exported_once() -> None:
    with pytest.raises(SharedProblem, match="/shared is exported twice"):
        exports.parse([{"path": "/shared"}, {"path": "/shared/"}])


def test_a_folder_is_made_if_it_is_not_there_and_else_left_alone(tmp_path: pathlib.Path) -> None:
    root, parsed = Root(str(tmp_path)), exports.parse([{"path": "/shared", "mode": "1777", **ME}])
    assert len(exports.make_folders(root, parsed, check=True)) == 1
    assert not (tmp_path / "shared").exists()
    assert len(exports.make_folders(root, parsed, check=False)) == 1
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "shared").chmod(0o700)
    assert exports.make_folders(root, parsed, check=False) == []
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o700


def test_a_server_that_missed_the_change_is_found_out(tmp_path: pathlib.Path) -> None:
    root, expected = Root(str(tmp_path)), text({"path": "/shared"})
    assert exports.is_stale(root, expected)
    (tmp_path / "var/lib/nfs").mkdir(parents=True)
    (tmp_path / "var/lib/nfs/etab").write_text("/shared\t10.0.0.0/24(rw,sync,wdelay)\n/other\t*(ro)\n")
    assert not exports.is_stale(root, expected)
    assert not exports.is_stale(root, None)


def test_without_exports_the_file_goes(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    exports.plan(root, text({"path": "/shared"})).apply()
    assert (tmp_path / "etc/exports.d/hpcai.exports").exists()
    exports.plan(root, text()).apply()
    assert not (tmp_path / "etc/exports.d/hpcai.exports").exists()
