# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of this repository the baked image depends on. If one of them changes, the image is baked again.

The roles' `tasks/install*.yml` and the task files that they include install what belongs in an image. They use the
roles' variables, templates and files, and the modules. Everything else in a role is configured later, and can change
without a new image.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDERS = ("HPCAI_ENROOT_FILES", "HPCAI_BEEGFS_FILES", "HPCAI_AZCOPY_FILES")
"""Environment variables: folders with the release files of enroot and pyxis, the packages of BeeGFS, and the release
file of azcopy, if the nodes should have them."""
VARIABLES = Path("inventories/simulated/group_vars/all.yml")
"""Variables of the playbook run."""

_PATTERNS = (
    "playbooks/image.yml",
    "roles/image/tasks/generalise.yml",
    "roles/slurm/templates/slurmd.conf.j2",
    "roles/enroot_pyxis/files/**/*",
    "roles/enroot_pyxis/templates/**/*",
    "roles/*/vars/**/*.yml",
    "roles/*/defaults/**/*.yml",
    "plugins/modules/*.py",
    "plugins/module_utils/**/*.py",
)
_INCLUDES = re.compile(r"(?:import|include)_tasks: *(\S+\.yml)")


def bake_inputs(repository: Path) -> list[Path]:
    """All files of this repository that the bake depends on, sorted."""
    found = {path for pattern in _PATTERNS for path in repository.glob(pattern) if path.is_file()}
    return sorted(found | _task_files(repository) | {repository / VARIABLES})


def _task_files(repository: Path) -> set[Path]:
    """The task files that install, with those that they include."""
    found: set[Path] = set()
    waiting = [*repository.glob("roles/*/tasks/install*.yml")]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [path.parent / name for name in _INCLUDES.findall(path.read_text(encoding="utf-8"))]
    return found


def provided_files() -> list[Path]:
    """The files in the user's folders that are installed in the image, sorted."""
    folders = [Path(folder) for folder in map(os.environ.get, FOLDERS) if folder]
    there = [folder for folder in folders if folder.is_dir()]
    return [path for folder in there for path in sorted(folder.iterdir()) if path.is_file()]
