# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files the plugin accepts as its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.inventory.azure_vmss import InventoryModule


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("azure_vmss.yml", True),
        ("azure_vmss.yaml", True),
        ("prod.azure_vmss.yml", True),
        ("azure_rm.yml", False),
        ("azure_vmss.json", False),
        ("azure_vmss.yml.orig", False),
        ("hosts", False),
    ],
)
def test_accepts_files_by_name(tmp_path: Path, name: str, ours: bool) -> None:
    path = tmp_path / name
    path.touch()

    assert InventoryModule().verify_file(str(path)) is ours


def test_a_missing_file_is_not_accepted(tmp_path: Path) -> None:
    assert InventoryModule().verify_file(str(tmp_path / "azure_vmss.yml")) is False
