# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the stand-in for BeeGFS computes: where bytes are stored, the control groups of process 1, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.beegfs.program.cgroups import groups_of_first
from stand_ins.beegfs.program.settings import Insecure, Settings, Wrong
from stand_ins.beegfs.program.stripes import CHUNK, pieces, share

HYBRID = """\
30 25 0:26 /libpod_parent/libpod-12 /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,name=systemd
31 25 0:27 /libpod_parent/libpod-12 /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 25 0:29 / /proc rw - proc proc rw
"""
HYBRID_OF_PROCESS_1 = """\
4:cpu,cpuacct:/libpod_parent/libpod-12
1:name=systemd:/libpod_parent/libpod-12/init.scope
0::/libpod_parent/libpod-12
"""


def test_finds_the_groups_of_process_1_in_a_hybrid_hierarchy() -> None:
    assert groups_of_first(HYBRID, HYBRID_OF_PROCESS_1) == [
        "/sys/fs/cgroup/systemd/init.scope",
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/unified/libpod_parent/libpod-12",
    ]


def test_finds_the_group_of_process_1_in_a_unified_hierarchy() -> None:
    plain = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    assert groups_of_first(plain, "0::/init.scope\n") == ["/sys/fs/cgroup/init.scope"]


@pytest.mark.parametrize("targets", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 7])
def test_the_pieces_on_each_target_add_up_to_its_share(size: int, targets: int) -> None:
    ends = [0] * targets
    total = 0
    for index, at, length in pieces(0, size, targets):
        assert at == ends[index]
        ends[index] += length
        total += length
    assert total == size
    assert ends == [share(size, index, targets) for index in range(targets)]


def test_arguments_override_the_file_and_ports_are_shifted(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("# connPortShift = 1\nconnPortShift = 1000\n sysMgmtdHost =n1 \n", encoding="utf-8")
    assert Settings([f"cfgFile={file}"]).port("connMgmtdPortTCP") == 9008
    assert Settings([f"cfgFile={file}", "--connPortShift=2"]).port("connMetaPortTCP") == 8007
    assert Settings([f"cfgFile={file}"]).text("sysMgmtdHost") == "n1"


def test_a_missing_or_empty_secret_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"abc")
    with pytest.raises(Wrong, match="Auth file is empty"):
        Settings([f"connAuthFile={empty}"]).secret()
    with pytest.raises(Insecure, match="No connAuthFile configured"):
        Settings([]).secret()
    assert Settings(["connDisableAuthentication=true"]).secret() == ""
