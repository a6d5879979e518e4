# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wanted of NCCL's configuration: the options of the module, which are also those of /etc/hpcai/nccl.json."""

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
        """Return what /etc/hpcai/nccl.json holds of them: all that a boot needs to do the same again.

        That nothing is wanted is kept too: a boot without settings goes by the VM size.
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
"""The options as Ansible has them."""


def options_of(given: Mapping[str, Any]) -> NcclOptions:
    """Return options out of a module's parameters or a settings file; what is None counts as not given.

    ``enroot_dir`` is the exception: there an empty text, or None in a settings file, means none.

    :raises ConfigError: an option that there is not, or a value that it cannot have.
    """
    return _FORM("", {**given, "enroot_dir": given["enroot_dir"] or ""} if "enroot_dir" in given else given)
