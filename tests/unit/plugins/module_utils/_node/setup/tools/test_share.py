# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manual pages and completion on a disk: where each system looks for them, and that they come and go with hpcnode."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk, layout, share
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

TEXT = f"# {layout.MARK}\n"
PAGES = share.Pages({"hpcnode.1": TEXT, "hpcnode-sku.1": TEXT}, bash=TEXT, zsh=TEXT)
MAN, BASH = "/usr/share/man/man1", "/usr/share/bash-completion/completions/hpcnode"
DEBIAN, OTHER = "/usr/share/zsh/vendor-completions/_hpcnode", "/usr/share/zsh/site-functions/_hpcnode"


def is_system(machine: Any, text: str) -> None:
    """Have a machine of this distribution, and the pages for it."""
    machine.path("/etc").mkdir(exist_ok=True)
    machine.path("/etc/os-release").write_text(text, encoding="utf-8")
    machine.shared = share.placed(PAGES, machine.root)


@pytest.mark.parametrize(
    ("release", "zsh"),
    [
        ("ID=debian\n", DEBIAN),
        ('ID=ubuntu\nID_LIKE="debian"\n', DEBIAN),
        ('ID="almalinux"\nID_LIKE="rhel centos fedora"\n', OTHER),
        ('ID="rhel"\nID_LIKE="fedora"\n', OTHER),
        ("ID=debian\nPRETTY_NAME=Joe's\n", DEBIAN),
        ("", OTHER),
    ],
)
def test_each_page_is_where_the_system_looks_for_it(machine: Any, release: str, zsh: str) -> None:
    is_system(machine, release)
    assert set(machine.shared) == {f"{MAN}/hpcnode.1", f"{MAN}/hpcnode-sku.1", BASH, zsh}
    machine.install("1.0")
    for path in machine.shared:
        assert machine.path(path).read_text(encoding="utf-8") == TEXT
        assert machine.path(path).stat().st_mode & 0o7777 == 0o644
    assert not machine.plan("1.0").changed


def test_a_page_that_was_changed_by_hand_is_restored_and_reported(machine: Any) -> None:
    is_system(machine, "ID=debian\n")
    machine.install("1.0")
    machine.path(BASH).write_text(f"{TEXT}more\n", encoding="utf-8")
    machine.path(f"{MAN}/hpcnode.1").unlink()
    assert set(machine.install("1.0").restored) == {BASH, f"{MAN}/hpcnode.1"}
    assert not machine.plan("1.0").changed


def test_pages_of_another_version_go_with_it(machine: Any) -> None:
    is_system(machine, "ID=debian\n")
    machine.install("1.0")
    del machine.shared[f"{MAN}/hpcnode-sku.1"]
    made = machine.install("2.0")
    assert f"{MAN}/hpcnode-sku.1" in made.remove
    assert made.restored == ()
    assert os.listdir(machine.path(MAN)) == ["hpcnode.1"]


def test_an_upgrade_of_the_distribution_moves_the_script_for_zsh(machine: Any) -> None:
    is_system(machine, "ID=debian\n")
    machine.install("1.0")
    is_system(machine, "ID=almalinux\n")
    made = machine.install("1.0")
    assert (made.write, made.remove) == ((OTHER,), (DEBIAN,))


def test_absent_removes_them_and_nothing_else(machine: Any) -> None:
    is_system(machine, "ID=debian\n")
    machine.install("1.0")
    machine.path(f"{MAN}/hpcnode-site.1").write_text("theirs", encoding="utf-8")
    machine.path(f"{MAN}/ls.1").write_text("theirs", encoding="utf-8")
    machine.remove()
    assert sorted(os.listdir(machine.path(MAN))) == ["hpcnode-site.1", "ls.1"]
    assert not machine.path(BASH).exists()
    assert not machine.path(DEBIAN).exists()


@pytest.mark.parametrize("path", [f"{MAN}/hpcnode.1", BASH, DEBIAN])
def test_refuses_to_overwrite_somebodys_own(machine: Any, path: str) -> None:
    is_system(machine, "ID=debian\n")
    machine.path(path).parent.mkdir(parents=True)
    machine.path(path).write_text("somebody's own", encoding="utf-8")
    with pytest.raises(ToolsError, match=f"{path} was not made by this module"):
        machine.install("1.0")


def test_the_comparison_of_module_and_command_includes_them(machine: Any) -> None:
    is_system(machine, "ID=debian\n")
    wanted, result = disk.compare(machine.root, "/usr/bin/python3", PAGES)
    assert set(machine.shared) <= set(result["written"])
    assert set(machine.shared) <= set(wanted)
    assert disk.compare(machine.root, "/usr/bin/python3", PAGES, absent=True)[0] == {}
