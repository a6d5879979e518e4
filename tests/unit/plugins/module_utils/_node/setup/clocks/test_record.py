# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of locked clocks, and how a load of the driver is identified."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import DriverLoad, read_load
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import Lock, read_record, write_record

LOAD = DriverLoad("a-boot", 7)
LOCKS = {"GPU-0": Lock(1410, None, "Not Supported"), "GPU-1": Lock()}


def test_the_record_is_read_for_the_same_load_of_the_driver_only(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    write_record(root, LOAD, LOCKS)
    assert read_record(root, LOAD) == LOCKS
    assert read_record(root, DriverLoad("a-boot", 8)) == {}
    assert read_record(root, DriverLoad("another", 7)) == {}
    assert read_record(root, None) == {}
    file = tmp_path / "run/hpcai/clocks.json"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["clocks.json"]


OF_LOAD = '"load": {"boot_id": "a-boot", "module": 7}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "null",
        "[]",
        f'{{"schema": 2, {OF_LOAD}, "gpus": {{}}}}',
        f'{{"schema": 1, {OF_LOAD}, "gpus": {{"GPU-0": {{"clock": 1}}}}}}',
        f'{{"schema": 1, {OF_LOAD}, "gpus": {{"GPU-0": 3}}}}',
        f'{{"schema": 1, {OF_LOAD}, "gpus": 3}}',
        f'{{"schema": 1, {OF_LOAD}}}',
    ],
)
def test_an_invalid_record_is_ignored(tmp_path: pathlib.Path, text: str) -> None:
    folder = tmp_path / "run/hpcai"
    folder.mkdir(parents=True)
    (folder / "clocks.json").write_text(text, encoding="utf-8")
    assert read_record(Root(str(tmp_path)), LOAD) == {}


def test_a_load_is_identified_by_the_boot_and_the_drivers_folder(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    assert read_load(root) is None
    boot_id, module = tmp_path / "proc/sys/kernel/random/boot_id", tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    assert read_load(root) is None
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("one\n", encoding="ascii")
    first = read_load(root)
    assert first == DriverLoad("one", module.stat().st_ino)
    assert read_load(root) == first
    fresh = module.with_name("fresh")
    fresh.mkdir()
    module.rmdir()
    fresh.rename(module)
    assert read_load(root) != first
