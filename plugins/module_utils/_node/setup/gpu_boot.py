# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings for the GPUs at each boot: files and one service. Needs neither a GPU nor a driver.

Without /etc/hpcai/gpu.json, everything is derived from the VM size.
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
    """The content of the settings file.

    :ivar min_driver: oldest accepted version of NVIDIA's driver, e.g. ``535`` or ``550.54.15``; None for any.
    :ivar gpu_count: number of GPUs that the machine must have; None for the VM size's number, 0 to check none.
    :ivar timeout: timeout of one query to the driver, in seconds.
    """

    min_driver: str | None = None
    gpu_count: int | None = None
    timeout: float = LIMIT_S

    def as_options(self) -> dict[str, Any]:
        """Return the options in the form of the settings file, without those that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def is_default(self) -> bool:
        """Whether these are the defaults, so that no file is needed."""
        return self == GpuSettings()


_FORMS: Mapping[str, Form[Any]] = {
    "min_driver": optional(matching(_VERSION, "a version such as '535' or '550.54.15'")),
    "gpu_count": optional(number(integral=True)),
    "timeout": check_seconds,
}
_FORM = instance_of(GpuSettings, _FORMS)
ARGUMENTS = arguments_of(_FORMS, defaults_of(GpuSettings))
"""The options as an Ansible argument_spec."""


def settings_of(options: Mapping[str, Any]) -> GpuSettings:
    """Return the checked options.

    :raises ConfigError: an option is unknown, or has a value of the wrong type.
    """
    return _FORM("", options)


def read_settings(root: Root) -> GpuSettings:
    """Return the settings below ``root``; the defaults if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, _FORM) or GpuSettings()


def version_of(text: str) -> tuple[int, ...]:
    """Return a version in a form that can be compared; empty if the text is not a version."""
    return tuple(int(number) for number in text.split(".")) if _VERSION.fullmatch(text) else ()


DAEMON = "nvidia-persistenced"


@dataclass(frozen=True)
class BootOptions:
    """The options for each boot.

    :ivar settings: settings of the GPU check; the defaults need no file.
    :ivar clocks: the clocks; None to leave their file unchanged.
    :ivar daemon: whether to enable the persistence daemon, if it is installed and not enabled.
    """

    settings: GpuSettings
    clocks: clocks.ClockOptions | None
    daemon: bool


DEFAULTS = BootOptions(GpuSettings(), clocks.ClockOptions(state="default"), daemon=False)
"""Removes the files; a daemon that was enabled stays enabled."""


def ensure(root: Root, run: Run, options: BootOptions, check_mode: bool = False) -> list[dict[str, str]]:
    """Write the files and enable the service as wanted; also works in an image.

    :return: the changes in the form of Ansible's diff; empty if there is nothing to do.
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
    # A udev rule in Ubuntu's package starts it, so its state is "static"; an administrator may have masked it. Neither
    # is changed. A machine without the driver has no such unit.
    if run(["systemctl", "is-enabled", DAEMON]).stdout.strip() != "disabled":
        return {}
    if not check_mode:
        must(run(["systemctl", "enable", DAEMON]))
    return {"before": f"{DAEMON}: disabled\n", "after": f"{DAEMON}: enabled\n"}
