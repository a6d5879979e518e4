# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of the boot's look at the GPUs: /etc/hpcai/gpu.json. Without the file, the VM size says it all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...forms import check_seconds
from ...machine.config import FOLDER, ConfigError, read_config
from ...machine.gpu import LIMIT_S
from ...machine.root import Root

CONFIG = "gpu"
_VERSION = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}")


@dataclass(frozen=True)
class Settings:
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
        return self == Settings()


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return what the options ask for.

    :raises ValueError: an option is not known or has a value of the wrong kind.
    """
    unknown = sorted(set(options) - set(Settings.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]}: there are {', '.join(Settings.__dataclass_fields__)}")
    min_driver, gpu_count = options.get("min_driver"), options.get("gpu_count")
    timeout = check_seconds("timeout", options.get("timeout", LIMIT_S))
    if min_driver is not None and not (isinstance(min_driver, str) and _VERSION.fullmatch(min_driver)):
        raise ValueError(f"min_driver is {min_driver!r}: give a version such as '535' or '550.54.15'")
    if gpu_count is not None and (isinstance(gpu_count, bool) or not isinstance(gpu_count, int) or gpu_count < 0):
        raise ValueError(f"gpu_count is {gpu_count!r}: give a number of GPUs, 0 for none")
    return Settings(min_driver, gpu_count, timeout)


def read_settings(root: Root) -> Settings:
    """Return the settings below ``root``; the defaults where there is no file.

    :raises ConfigError: the file cannot be used.
    """
    try:
        return settings_of(read_config(root, CONFIG) or {})
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"{root.at(FOLDER)}/{CONFIG}.json: {error}: run the playbook again, which writes it."
        ) from error


def version_of(text: str) -> tuple[int, ...]:
    """Return a version as what compares; empty where the text is none."""
    return tuple(int(part) for part in text.split(".")) if _VERSION.fullmatch(text) else ()
