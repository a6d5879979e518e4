# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options of the module nccl_topology, which are also those of /etc/hpcai/nccl.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...forms import (
    Form,
    any_path,
    arguments_of,
    boolean,
    choice,
    defaults_of,
    instance_of,
    mapping,
    string,
    unquoted_path,
)

TOPOLOGY_PATH = "/var/lib/hpcai/nccl-topo.xml"
CONF_PATH = "/etc/nccl.conf"
ENROOT_DIR = "/etc/enroot"

STRICT, OMIT, WARN, IGNORE = "strict", "omit", "warn", "ignore"
PRESENT, ABSENT = "present", "absent"

_OF_ONE_RUN = ("state", "root", "persistent", "apply")


@dataclass(frozen=True)
class NcclOptions:
    """See the documentation of the module nccl_topology, whose options these are."""

    vm_size: str | None = None
    vm_sizes: Mapping[str, Any] = field(default_factory=dict)
    topology_path: str = TOPOLOGY_PATH
    conf_path: str = CONF_PATH
    settings: Mapping[str, Any] = field(default_factory=dict)
    enroot_dir: str | None = ENROOT_DIR
    verify: str = STRICT
    state: str = PRESENT
    force: bool = False
    root: str = "/"
    persistent: bool | None = None
    apply: bool = True

    def remembered(self) -> dict[str, Any]:
        """Return the options as /etc/hpcai/nccl.json stores them: all that a boot needs to do the same again.

        The state absent is saved too, because a boot without settings uses the VM size's defaults.
        """
        if self.state == ABSENT:
            return {"state": ABSENT}
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OF_ONE_RUN}


_FORMS: Mapping[str, Form[Any]] = {
    "vm_size": string,
    "vm_sizes": mapping,
    "topology_path": unquoted_path,
    "conf_path": unquoted_path,
    "settings": mapping,
    "enroot_dir": lambda path, value: None if value in ("", "none") else unquoted_path(path, value),
    "verify": choice(STRICT, OMIT, WARN, IGNORE),
    "state": choice(PRESENT, ABSENT),
    "force": boolean,
    "root": any_path,
    "persistent": boolean,
    "apply": boolean,
}
_FORM = instance_of(NcclOptions, _FORMS, null_is_absent=True)
ARGUMENTS = arguments_of(_FORMS, defaults_of(NcclOptions))
"""The options as an Ansible argument_spec."""


def options_of(given: Mapping[str, Any]) -> NcclOptions:
    """Return options from a module's parameters or a settings file; None counts as not given.

    ``enroot_dir`` is an exception: an empty string, or None in a settings file, disables it.

    :raises ConfigError: an option is unknown, or has an invalid value.
    """
    return _FORM("", {**given, "enroot_dir": given["enroot_dir"] or ""} if "enroot_dir" in given else given)
