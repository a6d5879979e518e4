# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: Slurm's configuration files from the variables of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import ClusterError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of


def slurm_files(hosts: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the name and the text of each file."""
    known = {field.name for field in fields(FileOptions)}
    unknown = sorted(str(key) for key in wanted if key not in known)
    if unknown:
        raise AnsibleFilterError(
            f"slurm_files does not know {', '.join(unknown)}; known are {', '.join(sorted(known))}."
        )
    try:
        files = files_of(hosts, FileOptions(**{key: value for key, value in wanted.items() if value is not None}))
    except (ClusterError, ConfigError, UnknownVmSize) as error:
        raise AnsibleFilterError(str(error)) from error
    return [{"name": name, "text": text} for name, text in files.items()]


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"slurm_files": slurm_files}
