# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""/proc hides other users' processes where that is wanted, and is mounted anew only where something changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.options import (
    SETTINGS,
    AccessOptions,
    as_text,
    read_options,
)

OPEN = AccessOptions(True, (), ("sudo",), "gpu-0", (), False, "/var/lib/slurm/slurmd")
HIDDEN = dataclasses.replace(OPEN, hide_processes=True)


def mounted(folder: Path, options: str) -> Root:
    """A machine whose /proc has these options."""
    (folder / "proc/self").mkdir(parents=True, exist_ok=True)
    line = f"22 28 0:21 / /proc rw,nosuid,nodev,noexec - proc proc {options}\n"
    (folder / "proc/self/mountinfo").write_text(line, encoding="utf-8")
    return Root(str(folder))


@pytest.mark.parametrize(
    ("options", "wanted", "remount"),
    [
        ("rw", HIDDEN, "remount,hidepid=2,gid="),
        ("rw,hidepid=1", HIDDEN, "remount,hidepid=2,gid="),
        ("rw,gid=4,hidepid=invisible", HIDDEN, ""),
        ("rw,gid=4,hidepid=2", HIDDEN, ""),
        ("rw", OPEN, ""),
        ("rw,gid=4,hidepid=invisible", OPEN, "remount,hidepid=0,gid=0"),
        ("rw,gid=4,hidepid=2", dataclasses.replace(HIDDEN, present=False), "remount,hidepid=0,gid=0"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_proc_is_mounted_anew_only_to_change_it(
    tmp_path: Path, options: str, wanted: AccessOptions, remount: str, check: bool
) -> None:
    asked: list[str] = []

    def run(command: Sequence[str]) -> Result:
        asked.append(" ".join(command))
        return Result(tuple(command), 0, "", "")

    done = plan.remount_proc(mounted(tmp_path, options), wanted, run, check)
    assert len(done) == bool(remount)
    assert len(asked) == (bool(remount) and not check)
    assert all(one.startswith(f"mount -o {remount}") and one.endswith(" /proc") for one in asked)


def test_logind_sees_all_processes_where_users_do_not() -> None:
    assert "SupplementaryGroups=adm" in (plan.hidepid_files(HIDDEN)[plan.LOGIND] or "")
    assert plan.hidepid_files(OPEN) == {plan.LOGIND: None}


@pytest.mark.parametrize("hide", [True, False])
def test_each_boot_knows_what_is_wanted(tmp_path: Path, hide: bool) -> None:
    file = tmp_path / SETTINGS[1:]
    file.parent.mkdir(parents=True)
    text = as_text(dataclasses.replace(OPEN, hide_processes=hide))
    file.write_text(text, encoding="utf-8")
    kept = read_options(Root(str(tmp_path)), "gpu-0")
    assert kept is not None
    assert kept.hide_processes is hide
    file.write_text(text.replace(str(hide).lower(), '"maybe"').replace('"nss_slurm": "maybe"', '"nss_slurm": false'))
    with pytest.raises(ConfigError, match="has no usable hide_processes"):
        read_options(Root(str(tmp_path)), "gpu-0")


def test_an_image_of_an_earlier_version_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / SETTINGS[1:]
    file.parent.mkdir(parents=True)
    lines = [line for line in as_text(OPEN).splitlines() if "hide_processes" not in line]
    file.write_text("\n".join(lines), encoding="utf-8")
    kept = read_options(Root(str(tmp_path)), "gpu-0")
    assert kept is not None
    assert not kept.hide_processes
