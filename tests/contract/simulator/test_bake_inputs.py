# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node image is baked again only if one of its inputs changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.backends.containers import baked_image
from simulator.backends.containers.bake_inputs import FOLDERS, bake_inputs
from simulator.backends.containers.places import REPOSITORY


@pytest.mark.parametrize("variable", FOLDERS)
def test_changed_files_of_a_folder_change_the_image_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    without = baked_image.key()
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "enroot.deb").write_bytes(b"one")
    first = baked_image.key()
    (tmp_path / "enroot.deb").write_bytes(b"another")
    assert len({without, first, baked_image.key()}) == 3


def test_only_installing_tasks_of_roles_are_inputs() -> None:
    inputs = {str(path.relative_to(REPOSITORY)) for path in bake_inputs(REPOSITORY)}
    included = {"roles/slurm/tasks/users.yml", "roles/shared_fs/tasks/packages.yml"}
    assert {"roles/slurm/tasks/install.yml", "playbooks/image.yml", *included} <= inputs
    assert "roles/slurm/tasks/controller.yml" not in inputs
