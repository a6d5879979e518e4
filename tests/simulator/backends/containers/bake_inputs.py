# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of this repository the baked image is made of, so that it is baked again when one of them changes.

What belongs in an image stands in the roles' `tasks/install*.yml`, and a few task files that those include, with their
variables and the modules they may use; everything else of a role is configured later, and may change without a new
image.
"""

from __future__ import annotations

from pathlib import Path

VARIABLES = Path("inventories/simulated/group_vars/all.yml")
"""Variables that the playbook is run with."""

_PATTERNS = (
    "playbooks/image.yml",
    "roles/*/tasks/install*.yml",
    "roles/image/tasks/generalise.yml",
    "roles/scratch/tasks/*.yml",
    "roles/slurm/tasks/slurmd_unit.yml",
    "roles/slurm/templates/slurmd.conf.j2",
    "roles/*/vars/**/*.yml",
    "roles/*/defaults/**/*.yml",
    "plugins/modules/*.py",
    "plugins/module_utils/**/*.py",
)


def bake_inputs(repository: Path) -> list[Path]:
    """All files that the bake is made of, sorted."""
    found = {path for pattern in _PATTERNS for path in repository.glob(pattern) if path.is_file()}
    return sorted(found | {repository / VARIABLES})
