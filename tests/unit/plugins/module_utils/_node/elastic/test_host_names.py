# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of elastic machines in the controller's /etc/hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import host_names
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.book import JOINED, LEASED, LEAVING, Lease
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

OWN = "127.0.0.1 localhost\n10.0.0.1 ctl  # by hand\n"
BEGIN, END = f"# BEGIN {host_names.BLOCK}", f"# END {host_names.BLOCK}"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A machine with /etc/hosts."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "run/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hosts").write_text(OWN, encoding="utf-8")
    return Root(str(tmp_path))


def lease(slot: str, address: str = "10.0.0.9", host_name: str = "gpu00000A", state: str = JOINED) -> dict[str, Lease]:
    """One lease."""
    return {slot: Lease(slot, "vm", "1", address, host_name, state, 0.0, 0.0)}


def hosts(root: Root) -> str:
    """The file."""
    return Path(root.at("/etc/hosts")).read_text(encoding="utf-8")


def test_a_machine_has_its_names_as_long_as_its_lease(root: Root) -> None:
    assert host_names.write(root, {**lease("gpu-1", state=LEASED), **lease("gpu-0", "10.0.0.8", "gpu000009")}) == ""
    assert hosts(root) == f"{BEGIN}\n10.0.0.8 gpu-0 gpu000009\n10.0.0.9 gpu-1 gpu00000A\n{END}\n{OWN}"
    host_names.write(root, lease("gpu-1", state=LEAVING))
    assert hosts(root) == OWN


def test_a_file_with_the_same_names_is_not_written_again(root: Root) -> None:
    host_names.write(root, lease("gpu-0"))
    before = os.stat(root.at("/etc/hosts")).st_ino
    host_names.write(root, lease("gpu-0"))
    assert os.stat(root.at("/etc/hosts")).st_ino == before
    # A change replaces the file in one step: no reader finds half a file.
    host_names.write(root, lease("gpu-1"))
    assert os.stat(root.at("/etc/hosts")).st_ino != before
    assert os.stat(root.at("/etc/hosts")).st_mode & 0o777 == 0o644


@pytest.mark.parametrize("one", [lease("gpu-0", address=""), lease("gpu-0", address="10.0.0.9 evil")])
def test_what_is_no_address_is_not_written(root: Root, one: dict[str, Lease]) -> None:
    assert host_names.write(root, one) == ""
    assert hosts(root) == OWN


def test_a_host_name_that_is_none_is_left_out(root: Root) -> None:
    host_names.write(root, lease("gpu-0", host_name="x\n10.0.0.1 login"))
    assert hosts(root).splitlines()[1] == "10.0.0.9 gpu-0"


def test_a_broken_block_is_reported_and_stays(root: Root) -> None:
    Path(root.at("/etc/hosts")).write_text(f"{BEGIN}\n{OWN}", encoding="utf-8")
    assert "no line after it ends the block" in host_names.write(root, lease("gpu-0"))
    assert hosts(root) == f"{BEGIN}\n{OWN}"


def test_uninstall_removes_the_same_block() -> None:
    file = Path(__file__).parents[6] / "roles/elastic/tasks/uninstall.yml"
    [task] = [one for one in yaml.safe_load(file.read_text(encoding="utf-8")) if "ansible.builtin.blockinfile" in one]
    marker = task["ansible.builtin.blockinfile"]["marker"]
    assert marker.format(mark="BEGIN") == BEGIN
