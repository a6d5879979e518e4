# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wanted of NCCL's configuration: the options of the module, which are also those of /etc/hpcai/nccl.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...machine.config import ConfigError
from . import conf

TOPOLOGY_PATH = "/var/lib/hpcai/nccl-topo.xml"
CONF_PATH = "/etc/nccl.conf"
ENROOT_DIR = "/etc/enroot"

STRICT, OMIT, WARN, IGNORE = "strict", "omit", "warn", "ignore"
PRESENT, ABSENT = "present", "absent"

_REMEMBERED = ("vm_size", "vm_sizes", "topology_path", "conf_path", "settings", "enroot_dir", "verify", "force")


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
        return {name: getattr(self, name) for name in _REMEMBERED}


def options_of(given: Mapping[str, Any]) -> NcclOptions:
    """Return options out of a module's parameters or a settings file; what is None counts as not given.

    ``enroot_dir`` is the exception: there an empty text, or None in a settings file, means none.

    :raises ConfigError: an option that there is not, or a value that it cannot have.
    """
    known = {known.name for known in fields(NcclOptions)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigError(f"unknown options: {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
    kept = {name: value for name, value in given.items() if value is not None or name == "enroot_dir"}
    options = NcclOptions(**kept)
    if options.enroot_dir in ("", "none"):
        options = replace(options, enroot_dir=None)
    for name in ("vm_sizes", "settings"):
        if not isinstance(getattr(options, name), Mapping):
            raise ConfigError(f"{name} must be a mapping.")
    for name, choices in (("verify", (STRICT, OMIT, WARN, IGNORE)), ("state", (PRESENT, ABSENT))):
        if getattr(options, name) not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {getattr(options, name)!r}.")
    try:
        for name in ("topology_path", "conf_path", "enroot_dir"):
            if getattr(options, name) is not None:
                conf.check_path(name, getattr(options, name))
    except conf.PathError as error:
        raise ConfigError(str(error)) from None
    return options
