# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: how many local disks the scratch must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disk_count import stated_count
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import ARGUMENTS, parse

# Numbers and lists may be texts from the command line, as for the module.
_VALIDATOR = ArgumentSpecValidator(
    {"expected_count": ARGUMENTS["expected_count"], "devices": ARGUMENTS["devices"], "nvme_count": {"type": "int"}}
)


def scratch_disks(options: Mapping[str, Any]) -> int | None:
    """Return the number of disks that these options of the module nvme_raid expect; None if none of them has it."""
    if not isinstance(options, Mapping):
        raise AnsibleFilterError(f"scratch_disks takes a mapping of options, not {options!r}.")
    checked = _VALIDATOR.validate(dict(options))
    if checked.error_messages:
        raise AnsibleFilterError(f"scratch_disks: {'; '.join(checked.error_messages)}.")
    given = dict(checked.validated_parameters)
    nvme_count = given.pop("nvme_count", None)
    try:
        disks = stated_count(parse(given), nvme_count)
    except ConfigError as error:
        raise AnsibleFilterError(f"scratch_disks: {error}") from error
    return disks.count if disks else None


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"scratch_disks": scratch_disks}
