# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SELinux labels of files that the role installs."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import selinux
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result

# The format of policycoreutils 3.x, as in Enterprise Linux 9.
OUTPUT = """\
Would relabel /etc/munge/munge.key from system_u:object_r:etc_t:s0 to system_u:object_r:munge_etc_t:s0
Would relabel /etc/slurm/slurm conf from unconfined_u:object_r:user_tmp_t:s0 to system_u:object_r:etc_t:s0
"""


class Machine:
    """Answers as restorecon did when it was recorded."""

    def __init__(self, output: str = "", rc: int = 0) -> None:
        self.output, self.rc = output, rc
        self.commands: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        self.commands.append(" ".join(command))
        return Result(tuple(command), self.rc, self.output, "restorecon: not allowed" if self.rc else "")


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A machine with SELinux and a folder of munge."""
    for folder in ("sys/fs/selinux", "etc/selinux", "etc/munge"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/selinux/config").touch()
    (tmp_path / "sys/fs/selinux/enforce").write_text("1", encoding="utf-8")
    return Root(str(tmp_path))


def test_wrong_labels_are_named_and_only_those_are_changed(root: Root) -> None:
    machine = Machine(OUTPUT)
    wrong = selinux.wrong_labels(["/etc/munge", "/etc/slurm"], root, machine.run)
    assert wrong == ["/etc/munge/munge.key", "/etc/slurm/slurm conf"]
    # A missing folder is left out, because restorecon would fail.
    assert machine.commands == ["restorecon -n -v -R /etc/munge"]
    selinux.relabel(wrong, machine.run)
    assert machine.commands[1:] == ["restorecon /etc/munge/munge.key /etc/slurm/slurm conf"]


def test_correct_labels_need_no_change(root: Root) -> None:
    machine = Machine()
    assert selinux.wrong_labels(["/etc/munge"], root, machine.run) == []
    selinux.relabel([], machine.run)
    assert len(machine.commands) == 1


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param("sys/fs/selinux/enforce", id="a kernel without SELinux"),
        pytest.param("etc/selinux/config", id="SELinux without a policy, as on a Debian without AppArmor"),
    ],
)
def test_without_selinux_restorecon_is_not_run(root: Root, tmp_path: pathlib.Path, missing: str) -> None:
    (tmp_path / missing).unlink()
    machine = Machine(OUTPUT)
    assert selinux.wrong_labels(["/etc/munge"], root, machine.run) == []
    assert machine.commands == []


def test_a_restorecon_that_fails_is_an_error(root: Root) -> None:
    with pytest.raises(CommandFailed, match="not allowed"):
        selinux.wrong_labels(["/etc/munge"], root, Machine(rc=1).run)


@pytest.mark.parametrize(("values", "is_on"), [("0 0", False), ("1 1", True), ("0 1", False), (None, None)])
def test_a_boolean_has_its_current_value(root: Root, tmp_path: pathlib.Path, values: str | None, is_on: bool) -> None:
    (tmp_path / "sys/fs/selinux/booleans").mkdir()
    if values is not None:
        (tmp_path / "sys/fs/selinux/booleans/use_nfs_home_dirs").write_text(values, encoding="utf-8")
    assert selinux.boolean("use_nfs_home_dirs", root) is is_on
    (tmp_path / "etc/selinux/config").unlink()
    assert selinux.boolean("use_nfs_home_dirs", root) is None


def test_a_boolean_that_cannot_be_set_is_an_error() -> None:
    machine = Machine(rc=1)
    with pytest.raises(CommandFailed, match="not allowed"):
        selinux.set_boolean("use_nfs_home_dirs", True, machine.run)
    assert machine.commands == ["setsebool -P use_nfs_home_dirs on"]
