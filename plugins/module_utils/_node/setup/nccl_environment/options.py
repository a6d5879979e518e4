# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wanted: the options of the module nccl_environment, which are also those of its file in /etc/hpcai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...machine.config import FOLDER, ConfigError
from .library import FAIL, RECOMMENDED, WARN, parse_version

CONFIG = "nccl_environment"
CONFIG_PATH = f"{FOLDER}/{CONFIG}.json"

PRESENT, ABSENT = "present", "absent"

_REMEMBERED = (
    "vm_size",
    "vm_sizes",
    "min_version",
    "when_old",
    "sharp_plugin",
    "library_paths",
    "mpi_launch_only",
    "mpi_files",
    "settings",
)
_TYPES = {
    "vm_sizes": Mapping,
    "settings": Mapping,
    "min_version": str,
    "sharp_plugin": bool,
    "mpi_launch_only": bool,
    "mpi_files": bool,
}
_TYPE_NAMES = {Mapping: "a mapping", str: "text", bool: "true or false"}


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
        """Return what /etc/hpcai/nccl_environment.json holds of them: all that a boot needs to do the same again.

        That nothing is wanted is kept too: a boot without settings goes by the VM size.
        """
        if self.state == ABSENT:
            return {"state": ABSENT}
        return {name: getattr(self, name) for name in _REMEMBERED}


def options_of(given: Mapping[str, Any]) -> EnvironmentOptions:
    """Return options out of a module's parameters or a settings file; what is None counts as not given.

    :raises ConfigError: an option that there is not, or a value that it cannot have.
    """
    known = [known.name for known in fields(EnvironmentOptions)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"unknown options: {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
    options = EnvironmentOptions(**{name: value for name, value in given.items() if value is not None})
    for name, kind in _TYPES.items():
        if not isinstance(getattr(options, name), kind):
            raise ConfigError(f"{name} must be {_TYPE_NAMES[kind]}.")
    for name, choices in (("when_old", (WARN, FAIL)), ("state", (PRESENT, ABSENT))):
        if getattr(options, name) not in choices:
            raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {getattr(options, name)!r}.")
    paths = options.library_paths
    if not isinstance(paths, (list, tuple)) or not all(
        isinstance(path, str) and path.startswith("/") for path in paths
    ):
        raise ConfigError("library_paths must be a list of absolute paths.")
    try:
        parse_version(options.min_version)
    except ValueError as error:
        raise ConfigError(f"min_version: {error}") from None
    return options
