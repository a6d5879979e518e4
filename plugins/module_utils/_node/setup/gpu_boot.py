# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the node does about its GPUs at each boot: files and one service. No GPU and no driver is needed.

Without /etc/hpcai/gpu.json the VM size says it all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..forms import Form, arguments_of, check_seconds, defaults_of, instance_of, matching, number, optional
from ..machine.config import FOLDER, as_config, read_checked
from ..machine.gpu import LIMIT_S
from ..machine.root import Root
from ..machine.run import Run, must
from . import clocks
from .managed_file import change_of

CONFIG = "gpu"
_VERSION = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}")


@dataclass(frozen=True)
class GpuSettings:
    """What the settings file says.

    :ivar min_driver: oldest version of NVIDIA's driver that will do, e.g. ``535`` or ``550.54.15``; None for any.
    :ivar gpu_count: number of GPUs that the machine must have; None for what its VM size has, 0 to look at none.
    :ivar timeout: seconds that one question to the driver may take.
    """

    min_driver: str | None = None
    gpu_count: int | None = None
    timeout: float = LIMIT_S

    def as_options(self) -> dict[str, Any]:
        """Return the options as they stand in the settings file: those that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def is_default(self) -> bool:
        """Whether a missing file says the same."""
        return self == GpuSettings()


_FORMS: Mapping[str, Form[Any]] = {
    "min_driver": optional(matching(_VERSION, "a version such as '535' or '550.54.15'")),
    "gpu_count": optional(number(integral=True)),
    "timeout": check_seconds,
}
_FORM = instance_of(GpuSettings, _FORMS)
ARGUMENTS = arguments_of(_FORMS, defaults_of(GpuSettings))
"""The options as Ansible has them."""


def settings_of(options: Mapping[str, Any]) -> GpuSettings:
    """Return what the options ask for.

    :raises ConfigError: an option is not known or has a value of the wrong kind.
    """
    return _FORM("", options)


def read_settings(root: Root) -> GpuSettings:
    """Return the settings below ``root``; the defaults where there is no file.

    :raises ConfigError: the file cannot be used.
    """
    return read_checked(root, CONFIG, _FORM) or GpuSettings()


def version_of(text: str) -> tuple[int, ...]:
    """Return a version as what compares; empty where the text is none."""
    return tuple(int(number) for number in text.split(".")) if _VERSION.fullmatch(text) else ()


DAEMON = "nvidia-persistenced"


@dataclass(frozen=True)
class BootOptions:
    """What is wanted at each boot.

    :ivar settings: of the look at the GPUs; the defaults need no file.
    :ivar clocks: the clocks; None to leave their file as it is.
    :ivar daemon: whether to enable the persistence daemon, where it is installed and not enabled.
    """

    settings: GpuSettings
    clocks: clocks.ClockOptions | None
    daemon: bool


DEFAULTS = BootOptions(GpuSettings(), clocks.ClockOptions(state="default"), daemon=False)
"""Undoes the files; a daemon that was enabled stays so."""


def ensure(root: Root, run: Run, options: BootOptions, check_mode: bool = False) -> list[dict[str, str]]:
    """Bring the files and the service to what is wanted; works in an image at rest.

    :return: the changes in the form of Ansible's diff; none where there is nothing to do.
    :raises OSError: a file cannot be written.
    :raises CommandFailed: the service cannot be enabled.
    """
    diffs = [_write_settings(root, options.settings, check_mode)]
    if options.clocks is not None:
        diffs.append(clocks.write_options(root, options.clocks, check_mode))
    if options.daemon:
        diffs.append(_enable(run, check_mode))
    return [diff for diff in diffs if diff]


def _write_settings(root: Root, settings: GpuSettings, check_mode: bool) -> dict[str, str]:
    path = root.at(f"{FOLDER}/{CONFIG}.json")
    change = change_of(path, None if settings.is_default else as_config(settings.as_options()))
    if not check_mode:
        change.apply()
    return change.as_diff()


def _enable(run: Run, check_mode: bool) -> dict[str, str]:
    # Of Ubuntu's package a rule of udev starts it: "static". Whoever masked it meant it. Neither is ours to change, and
    # a machine without the driver has no such unit.
    if run(["systemctl", "is-enabled", DAEMON]).stdout.strip() != "disabled":
        return {}
    if not check_mode:
        must(run(["systemctl", "enable", DAEMON]))
    return {"before": f"{DAEMON}: disabled\n", "after": f"{DAEMON}: enabled\n"}
