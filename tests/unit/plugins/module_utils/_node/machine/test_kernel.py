# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel modules: loaded or not, and why not. The messages are from kmod (Debian 12) and busybox."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.kernel import (
    ABSENT,
    LOADED,
    REFUSED,
    Loading,
    is_loaded,
    load_module,
    read_meminfo,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result


@pytest.mark.parametrize(("state", "loaded"), [("live", True), ("coming", False), ("going", False), (None, True)])
def test_a_module_is_loaded_only_when_it_is_live(tmp_path: Path, state: str | None, loaded: bool) -> None:
    folder = tmp_path / "sys/module/nvidia"
    assert is_loaded(Root(str(tmp_path)), "nvidia") is False
    folder.mkdir(parents=True)
    if state:
        (folder / "initstate").write_text(f"{state}\n", encoding="ascii")
    assert is_loaded(Root(str(tmp_path)), "nvidia") is loaded


@pytest.mark.parametrize(
    ("rc", "message", "state"),
    [
        (0, "", LOADED),
        (1, "modprobe: FATAL: Module nvidia_uvm not found in directory /lib/modules/6.1.0-26-cloud-amd64", ABSENT),
        (1, "modprobe: can't find module nvidia_uvm", ABSENT),
        (1, "modprobe: ERROR: could not insert 'nvidia_uvm': No such device", REFUSED),
        (1, "modprobe: ERROR: could not insert 'nvidia_uvm': Key was rejected by service", REFUSED),
        (124, "no answer within 120 s", REFUSED),
        (127, "modprobe: command not found", REFUSED),
        (1, "", REFUSED),
    ],
)
def test_a_missing_module_is_distinguished_from_a_refused_one(rc: int, message: str, state: str) -> None:
    asked = []

    def answer(command: list[str] | tuple[str, ...]) -> Result:
        asked.append(list(command))
        return Result(tuple(command), rc, "", f"something before\n{message}\n" if message else "")

    words = "" if rc == 0 else message or "exit status 1"
    assert load_module("nvidia_uvm", answer) == Loading(state, words)  # type: ignore[arg-type]
    assert asked == [["modprobe", "nvidia_uvm"]]


TEXT = """MemTotal:       928858388 kB
Active(anon):      12345 kB
HugePages_Total:      16
HugePages_Free:        0
Hugepagesize:       2048 kB
"""


def test_meminfo_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(TEXT, encoding="ascii")
    assert read_meminfo(Root(str(tmp_path))) == {
        "MemTotal": 928858388,
        "Active(anon)": 12345,
        "HugePages_Total": 16,
        "HugePages_Free": 0,
        "Hugepagesize": 2048,
    }


def test_a_missing_meminfo_is_empty(tmp_path: Path) -> None:
    assert read_meminfo(Root(str(tmp_path))) == {}
