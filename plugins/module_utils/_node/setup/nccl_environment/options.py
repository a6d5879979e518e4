# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options of the module nccl_environment, which are also those of its settings file in /etc/hpcai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...forms import (
    Form,
    Malformed,
    absolute_path,
    arguments_of,
    boolean,
    choice,
    defaults_of,
    instance_of,
    list_of,
    mapping,
    string,
)
from ...machine.config import FOLDER
from ...machine.verdict import FAIL, WARN
from .library import RECOMMENDED, parse_version

CONFIG = "nccl_environment"
CONFIG_PATH = f"{FOLDER}/{CONFIG}.json"

PRESENT, ABSENT = "present", "absent"

_OF_ONE_RUN = ("state", "persistent", "apply")


@dataclass(frozen=True)
class EnvironmentOptions:
    """See the documentation of the module nccl_environment, whose options these are."""

    vm_size: str | None = None
    vm_sizes: Mapping[str, Any] = field(default_factory=dict)
    state: str = PRESENT
    min_version: str = RECOMMENDED
    when_old: str = WARN
    sharp_plugin: bool = True
    library_paths: Sequence[str] = ()
    mpi_launch_only: bool = False
    mpi_files: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    persistent: bool = True
    apply: bool = True

    def remembered(self) -> dict[str, Any]:
        """Return the options as /etc/hpcai/nccl_environment.json stores them: all that a boot needs to do it again.

        The state absent is saved too, because a boot without settings uses the VM size's defaults.
        """
        if self.state == ABSENT:
            return {"state": ABSENT}
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OF_ONE_RUN}


def _version(path: str, value: Any) -> str:
    version = string(path, value)
    try:
        parse_version(version)
    except ValueError as error:
        raise Malformed(f"{path}: {error}") from None
    return version


_FORMS: Mapping[str, Form[Any]] = {
    "vm_size": string,
    "vm_sizes": mapping,
    "state": choice(PRESENT, ABSENT),
    "min_version": _version,
    "when_old": choice(WARN, FAIL),
    "sharp_plugin": boolean,
    "library_paths": list_of(absolute_path),
    "mpi_launch_only": boolean,
    "mpi_files": boolean,
    "settings": mapping,
    "persistent": boolean,
    "apply": boolean,
}
_FORM = instance_of(EnvironmentOptions, _FORMS, null_is_absent=True)
ARGUMENTS = arguments_of(_FORMS, defaults_of(EnvironmentOptions))
"""The options as an Ansible argument_spec."""


def options_of(given: Mapping[str, Any]) -> EnvironmentOptions:
    """Return options from a module's parameters or a settings file; None counts as not given.

    :raises ConfigError: an option is unknown, or has an invalid value.
    """
    return _FORM("", given)
