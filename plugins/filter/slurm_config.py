# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: a mapping as the text of one of Slurm's configuration files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError, render, render_line


def slurm_config(settings: Mapping[str, Any], lines: Iterable[Mapping[str, Any]] = ()) -> str:
    """Render settings, then one line for each mapping of ``lines``."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError(f"slurm_config takes a mapping of settings, not {type(settings).__name__}.")
    try:
        return render(settings) + "".join(f"{render_line(line)}\n" for line in lines)
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"slurm_config": slurm_config}
