# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of /proc/meminfo."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.meminfo import read_meminfo
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

TEXT = """MemTotal:       928858388 kB
Active(anon):      12345 kB
HugePages_Total:      16
HugePages_Free:        0
Hugepagesize:       2048 kB
"""


def test_amounts_and_counts_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(TEXT, encoding="ascii")
    assert read_meminfo(Root(str(tmp_path))) == {
        "MemTotal": 928858388,
        "Active(anon)": 12345,
        "HugePages_Total": 16,
        "HugePages_Free": 0,
        "Hugepagesize": 2048,
    }


def test_nothing_is_read_where_there_is_nothing(tmp_path: Path) -> None:
    assert read_meminfo(Root(str(tmp_path))) == {}
