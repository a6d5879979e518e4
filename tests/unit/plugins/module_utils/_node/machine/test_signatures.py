# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What wipefs and mdadm say of what lies on disks."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.signatures import (
    Signature,
    Superblock,
    parse_size,
    read_signatures,
    read_superblocks,
    with_dashes,
)

RECORDED = pathlib.Path(__file__).with_name("recorded")
WIPEFS = (RECORDED / "wipefs-2.38.1.json").read_text(encoding="utf-8")
EXAMINE = (RECORDED / "mdadm-4.2-examine.txt").read_text(encoding="utf-8")
NAMES = [f"nvme{n}n1" for n in range(5)]
UUID = "68706361-0000-4000-8000-00000000abcd"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A captured tree with the content of five disks."""
    for name in NAMES:
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    return Root(str(tmp_path))


def test_signatures_of_all_disks_by_one_command(root: Root) -> None:
    commands = []

    def run(command: Sequence[str]) -> Result:
        commands.append(list(command))
        return Result(tuple(command), 0, WIPEFS, "")

    found = read_signatures(root, NAMES, run)
    assert commands == [["wipefs", "--no-act", "--json", *(root.at(f"/dev/{name}") for name in NAMES)]]
    assert found["nvme0n1"] == found["nvme1n1"] == (Signature("linux_raid_member", "any:hpcai-scratch", UUID),)
    assert found["nvme2n1"] == (Signature("xfs", "precious", "99999999-0000-4000-8000-000000000000"),)
    assert [signature.type for signature in found["nvme3n1"] or ()] == ["gpt", "gpt", "PMBR"]
    assert found["nvme4n1"] == ()


def test_a_disk_that_cannot_be_read_is_not_a_blank_one(root: Root) -> None:
    def run(command: Sequence[str]) -> Result:
        broken = root.at("/dev/nvme1n1") in command
        said = "wipefs: error: /dev/nvme1n1: probing initialization failed: Permission denied"
        return Result(tuple(command), 1 if broken else 0, "" if broken else '{"signatures": []}', said)

    found = read_signatures(root, NAMES, run)
    assert found == {**dict.fromkeys(NAMES, ()), "nvme1n1": None}


def test_a_disk_whose_content_was_not_captured_is_unknown_without_asking(root: Root) -> None:
    def run(_command: Sequence[str]) -> Result:
        raise AssertionError

    assert read_signatures(root, ["nvme9n1"], run) == {"nvme9n1": None}


@pytest.mark.parametrize("stdout", ["", '{\n   "signatures": [\n\n   ]\n}\n'])
def test_blank_disks_are_blank(root: Root, stdout: str) -> None:
    answer = read_signatures(root, NAMES[:2], lambda command: Result(tuple(command), 0, stdout, ""))
    assert answer == {"nvme0n1": (), "nvme1n1": ()}


def test_superblocks_of_members() -> None:
    answer = read_superblocks(Root("/"), NAMES, lambda command: Result(tuple(command), 1, EXAMINE, ""))
    assert answer == {
        "nvme0n1": Superblock(UUID, "raid0", 2, 524288, 0),
        "nvme1n1": Superblock(UUID, "raid0", 2, 524288, 1),
    }


def test_no_superblock_is_asked_for_where_there_is_no_member() -> None:
    def run(_command: Sequence[str]) -> Result:
        raise AssertionError

    assert read_superblocks(Root("/"), [], run) == {}


def test_a_spare_has_no_role() -> None:
    spare = EXAMINE.replace("Active device 1", "spare")
    answer = read_superblocks(Root("/"), NAMES, lambda command: Result(tuple(command), 1, spare, ""))
    assert answer["nvme1n1"].role is None


def test_uuids_of_mdadm_and_of_the_rest_are_the_same() -> None:
    assert with_dashes("68706361:00004000:80000000:0000ABCD") == UUID
    assert with_dashes(UUID) == UUID


def test_sizes() -> None:
    assert [parse_size(text) for text in ("512K", "64 M", "4096", "1GiB")] == [524288, 67108864, 4096, 1073741824]
    for text in ("", "K", "512X", "-4K", "1.5K"):
        with pytest.raises(ValueError, match="no size"):
            parse_size(text)
