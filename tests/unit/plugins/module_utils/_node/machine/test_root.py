# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a machine's files below a root: missing files are None, and nothing outside the root is read."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import NoRoot, Root, existing_root


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A captured tree with a few files."""
    (tmp_path / "sys/node").mkdir(parents=True)
    for name in ("node10", "node2", "node", "nodes", "node1x", "other3"):
        (tmp_path / "sys/node" / name).mkdir()
    (tmp_path / "sys/text").write_bytes(b" two words \xff\n\n")
    (tmp_path / "sys/link").symlink_to("../devices/pci0000:00/nvme0")
    return Root(str(tmp_path))


def test_paths_of_the_machine_are_below_the_root(root: Root, tmp_path: pathlib.Path) -> None:
    assert root.at("/sys/text") == str(tmp_path / "sys/text")
    assert not root.is_this_machine
    assert (Root().at("/sys/text"), Root().is_this_machine) == ("/sys/text", True)
    assert Root("/tmp/..").is_this_machine


def test_text_is_stripped_and_can_contain_any_bytes(root: Root) -> None:
    assert root.text("/sys/text") == "two words \ufffd"


def test_a_carriage_return_in_a_name_begins_no_line(root: Root, tmp_path: pathlib.Path) -> None:
    """A process named like this had the user id that follows the carriage return."""
    (tmp_path / "status").write_bytes(b"Name:\tx\rUid:\t0\nUid:\t1001\n")
    assert root.text("/status") == "Name:\tx\rUid:\t0\nUid:\t1001"


def test_missing_files_are_none(root: Root) -> None:
    assert root.text("/sys/none") is None
    assert root.text("/sys/node") is None
    assert root.number("/sys/none") is None
    assert root.entries("/sys/none") == []
    assert root.link_name("/sys/none") is None
    assert root.link_name("/sys/text") is None
    assert not root.exists("/sys/none")


@pytest.mark.parametrize(
    ("text", "number"),
    [("12\n", 12), ("0x10de\n", 0x10DE), ("-1", -1), ("0", 0), ("007", 7), ("", None), ("many", None), ("1.5", None)],
)
def test_numbers_are_decimal_or_hexadecimal(root: Root, tmp_path: pathlib.Path, text: str, number: int | None) -> None:
    (tmp_path / "value").write_text(text, encoding="ascii")
    assert root.number("/value") == number


def test_numbered_entries_are_sorted_by_number(root: Root) -> None:
    assert list(root.numbered("/sys/node/", "node")) == [(2, "/sys/node/node2"), (10, "/sys/node/node10")]


def test_a_dangling_link_exists_and_has_a_name(root: Root) -> None:
    assert root.exists("/sys/link")
    assert root.link_name("/sys/link") == "nvme0"


def test_a_root_in_an_option_must_be_a_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    assert existing_root(str(tmp_path)).path == str(tmp_path)
    for missing in ("none", "file"):
        with pytest.raises(NoRoot) as refused:
            existing_root(f"{tmp_path}/{missing}")
        assert str(refused.value) == f"root {tmp_path}/{missing}: there is no such folder"
