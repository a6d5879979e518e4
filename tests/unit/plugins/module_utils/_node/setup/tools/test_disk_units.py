# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units on a disk: they are installed and removed with the version, and an administrator's changes are kept."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, units

UNITS = "/usr/lib/systemd/system"


def test_units_of_a_newer_version_are_removed_with_it_and_no_others(machine: Any) -> None:
    machine.install("2.0")
    wants = machine.path("/etc/systemd/system/hpcai-boot.target.wants")
    machine.path(f"{UNITS}/hpcai-new.service").write_text(f"{layout.MARK}\n", encoding="utf-8")
    (wants / "hpcai-new.service").symlink_to(f"{UNITS}/hpcai-new.service")
    machine.path(f"{UNITS}/hpcai-site.service").write_text("theirs", encoding="utf-8")
    (wants / "hpcai-site.service").symlink_to("/etc/systemd/system/hpcai-site.service")
    machine.install("1.0")
    assert set(os.listdir(machine.path(UNITS))) == {*units.UNITS, "hpcai-site.service"}
    assert set(os.listdir(wants)) == {*units.ENABLED["hpcai-boot.target.wants"], "hpcai-site.service"}


def test_a_disabled_unit_is_enabled_and_a_masked_one_stays_masked(machine: Any) -> None:
    machine.install("1.0")
    folder = machine.path("/etc/systemd/system")
    (folder / "multi-user.target.wants/hpcai-boot.target").unlink()
    (folder / "hpcai-scratch.service").symlink_to("/dev/null")
    made = machine.install("1.0")
    assert made.write == ("/etc/systemd/system/multi-user.target.wants/hpcai-boot.target",)
    assert made.touches_units
    assert os.readlink(folder / "hpcai-scratch.service") == "/dev/null"


def test_an_administrators_link_to_our_unit_is_kept(machine: Any) -> None:
    machine.install("1.0")
    link = machine.path("/etc/systemd/system/graphical.target.wants/hpcai-boot.target")
    link.parent.mkdir()
    link.symlink_to(f"{UNITS}/hpcai-boot.target")
    assert not machine.install("1.0").changed
    assert link.is_symlink()


def test_a_link_of_another_version_to_a_remaining_unit_is_removed(machine: Any) -> None:
    """Otherwise a step that now only warns would still prevent slurmd from starting."""
    machine.install("1.0")
    link = machine.path("/etc/systemd/system/slurmd.service.requires/hpcai-clocks.service")
    link.symlink_to(f"{UNITS}/hpcai-clocks.service")
    made = machine.install("1.0")
    assert made.remove == ("/etc/systemd/system/slurmd.service.requires/hpcai-clocks.service",)
    assert made.touches_units
    assert not link.is_symlink()


def test_units_of_the_version_before_the_boot_engine_are_replaced(machine: Any) -> None:
    """After an upgrade in place, the units keep their names and run the engine's steps from the next boot on."""
    machine.install("1.0")
    old = {name: f"{layout.MARK}\n[Service]\nExecStart=/usr/bin/hpcnode {name}\n" for name in ("clocks", "gone")}
    for name, text in old.items():
        machine.path(f"{UNITS}/hpcai-{name}.service").write_text(text, encoding="utf-8")
    wants = machine.path("/etc/systemd/system/hpcai-boot.target.wants")
    (wants / "hpcai-gone.service").symlink_to(f"{UNITS}/hpcai-gone.service")
    machine.install("2.0")
    assert set(os.listdir(machine.path(UNITS))) == set(units.UNITS)
    assert sorted(os.listdir(wants)) == sorted(units.ENABLED["hpcai-boot.target.wants"])
    assert machine.path(f"{UNITS}/hpcai-clocks.service").read_text("utf-8") == units.UNITS["hpcai-clocks.service"]


def test_new_sources_alone_need_no_daemon_reload(machine: Any) -> None:
    machine.install("1.0")
    assert not machine.install("2.0").touches_units
