# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exports of an NFS server: to the cluster's subnets, and to no other network."""

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
    """Answer as ip does on a machine in 10.0.0.0/24."""
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
    """Return the file with these exports."""
    return exports.text(exports.parse(items), networks, on_azure, public)


def test_exports_go_to_the_servers_subnet_by_default() -> None:
    assert text({"path": "/shared"}) == (
        f"{exports.HEADER}\n/shared 10.0.0.0/24(rw,sync,no_subtree_check,root_squash)\n"
    )


def test_addresses_in_a_listed_network_are_not_listed_again() -> None:
    shown = text({"path": "/shared", "options": ["ro"]}, networks=["10.0.0.5", "local", "10.0.9.7", "10.0.8.0/24"])
    assert shown is not None
    assert shown.splitlines()[1] == "/shared 10.0.0.0/24(ro) 10.0.8.0/24(ro) 10.0.9.7(ro)"


def test_an_export_can_have_its_own_networks() -> None:
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
def test_public_and_invalid_networks_are_refused(network: str, words: str) -> None:
    with pytest.raises(SharedProblem, match=words.replace("*", r"\*")):
        text({"path": "/shared"}, networks=[network])


def test_public_networks_need_an_option_and_everybody_is_never_allowed() -> None:
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
        ({"path": "/shared", "options": ["rw)", "x"]}, r"options\[0\] must be one option"),
        ({"path": "/shared", "mode": "rwx"}, "octal digits"),
    ],
)
def test_invalid_exports_are_refused(item: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        exports.parse([item])


def test_exporting_a_folder_twice_is_refused() -> None:
    with pytest.raises(SharedProblem, match="/shared is exported twice"):
        exports.parse([{"path": "/shared"}, {"path": "/shared/"}])


def test_a_missing_folder_is_created_and_an_existing_one_left_alone(tmp_path: pathlib.Path) -> None:
    root, parsed = Root(str(tmp_path)), exports.parse([{"path": "/shared", "mode": "1777", **ME}])
    assert len(exports.make_folders(root, parsed, check=True)) == 1
    assert not (tmp_path / "shared").exists()
    assert len(exports.make_folders(root, parsed, check=False)) == 1
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "shared").chmod(0o700)
    assert exports.make_folders(root, parsed, check=False) == []
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o700


def test_a_server_with_other_exports_in_effect_is_stale(tmp_path: pathlib.Path) -> None:
    root, expected = Root(str(tmp_path)), text({"path": "/shared"})
    assert exports.is_stale(root, expected)
    (tmp_path / "var/lib/nfs").mkdir(parents=True)
    (tmp_path / "var/lib/nfs/etab").write_text("/shared\t10.0.0.0/24(rw,sync,wdelay)\n/other\t*(ro)\n")
    assert not exports.is_stale(root, expected)
    assert not exports.is_stale(root, None)


def test_without_exports_the_file_is_removed(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    exports.plan(root, text({"path": "/shared"})).apply()
    assert (tmp_path / "etc/exports.d/hpcai.exports").exists()
    exports.plan(root, text()).apply()
    assert not (tmp_path / "etc/exports.d/hpcai.exports").exists()
