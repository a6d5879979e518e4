# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for the GPUs' clocks, and the settings file that a boot reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...forms import (
    ConfigError,
    Form,
    arguments_of,
    boolean,
    check_seconds,
    choice,
    defaults_of,
    instance_of,
    list_of,
    number,
    wrong,
)
from ...machine.config import FOLDER, as_config, read_checked
from ...machine.gpu import LIMIT_S, GpuFacts
from ...machine.pci import canonical_busid
from ...machine.root import Root
from ..managed_file import change_of

CONFIG = "clocks"
"""Name of the settings file, ``/etc/hpcai/clocks.json``: it has these options under the same names."""
STATES = ("max", "explicit", "default")
METHODS = ("auto", "application", "locked")
ON_UNSUPPORTED = ("fail", "warn")


@dataclass(frozen=True)
class ClockOptions:
    """The options of the module gpu_clocks for the GPUs.

    :ivar state: ``max``, ``default`` or ``explicit``.
    :ivar graphics_mhz: graphics clock for ``explicit``; None for the highest at this memory clock.
    :ivar memory_mhz: memory clock for ``explicit``; None for the highest.
    :ivar gpus: indices, UUIDs (also of MIG instances), PCI addresses, or ``all``.
    :ivar method: ``auto`` uses application clocks if the driver has them, else ``locked``.
    :ivar persistence: persistence mode; None to leave it unchanged.
    :ivar on_unsupported: whether it is a failure if a GPU or driver does not support the setting.
    :ivar timeout: timeout of one query to the driver, in seconds.
    """

    state: str = "max"
    graphics_mhz: int | None = None
    memory_mhz: int | None = None
    gpus: tuple[str, ...] = ("all",)
    method: str = "auto"
    persistence: bool | None = None
    on_unsupported: str = "fail"
    timeout: float = LIMIT_S

    def as_options(self) -> dict[str, Any]:
        """Return the options in the form of the settings file, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _gpu(path: str, value: Any) -> str:
    if not isinstance(value, (str, int)):
        raise wrong(path, "an index, a UUID or a PCI address", value)
    return str(value)


_MHZ = number(1, integral=True)
_FORMS: Mapping[str, Form[Any]] = {
    "state": choice(*STATES),
    "graphics_mhz": _MHZ,
    "memory_mhz": _MHZ,
    "gpus": list_of(_gpu, least=1),
    "method": choice(*METHODS),
    "persistence": boolean,
    "on_unsupported": choice(*ON_UNSUPPORTED),
    "timeout": check_seconds,
}
_FORM = instance_of(ClockOptions, _FORMS, null_is_absent=True)
ARGUMENTS = arguments_of(_FORMS, defaults_of(ClockOptions))
"""The options as an Ansible argument_spec."""


def parse(options: Mapping[str, Any]) -> ClockOptions:
    """Return the checked options.

    :raises ConfigError: an option is unknown, has a value of the wrong type, or conflicts with another one.
    """
    parsed = _FORM("", options)
    for name in ("graphics_mhz", "memory_mhz"):
        if getattr(parsed, name) is not None and parsed.state != "explicit":
            raise ConfigError(f"{name} needs state=explicit, but state is {parsed.state}.")
    if parsed.state == "explicit" and parsed.graphics_mhz is None and parsed.memory_mhz is None:
        raise ConfigError("state=explicit needs graphics_mhz or memory_mhz.")
    return parsed


def chosen(gpus: Sequence[GpuFacts], names: Sequence[str]) -> tuple[GpuFacts, ...]:
    """Return the selected GPUs, in the driver's order.

    :raises ValueError: a name matches no GPU.
    """
    if "all" in names:
        return tuple(gpus)
    found: set[int] = set()
    for name in names:
        meant = {gpu.index for gpu in gpus if _is_named(gpu, name)}
        if not meant:
            known = ", ".join(f"{gpu.index} = {gpu.busid or '?'} = {gpu.uuid or gpu.problem}" for gpu in gpus)
            raise ValueError(f"{name} is not a GPU of this machine. GPUs found: {known or 'none'}")
        found |= meant
    return tuple(gpu for gpu in gpus if gpu.index in found)


def _is_named(gpu: GpuFacts, name: str) -> bool:
    if name.isdecimal():
        return gpu.index == int(name)
    busid = canonical_busid(name)
    if busid is not None:
        return gpu.busid == busid
    return name.lower() in {uuid.lower() for uuid in (gpu.uuid, *gpu.mig_instances) if uuid}


def read_options(root: Root) -> ClockOptions | None:
    """Return the options for each boot; None if there is no settings file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, lambda _path, options: parse(options))


def write_options(root: Root, options: ClockOptions, check_mode: bool = False) -> dict[str, str]:
    """Save the options for each boot. The defaults need no file, because each boot starts with them.

    :return: the change in the form of Ansible's diff; empty if there is none.
    :raises OSError: the file cannot be written.
    """
    default = options.state == "default" and options.persistence is None
    change = change_of(root.at(f"{FOLDER}/{CONFIG}.json"), None if default else as_config(options.as_options()))
    if not check_mode:
        change.apply()
    return change.as_diff()
