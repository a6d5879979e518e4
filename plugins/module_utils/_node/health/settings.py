# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The site's settings of the health checks, and limits as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..machine.config import FOLDER, ConfigError
from ..sku.table import SOURCES
from ..sku.types import Threshold, VmSize

CONFIG = "health"
FILE = f"{FOLDER}/{CONFIG}.json"
SITE = "site"
"""``Threshold.source`` of a limit that the site has set."""


@dataclass(frozen=True)
class Settings:
    """The content of the file.

    :ivar off: checks that are turned off; each is shown as skip, with the reason.
    :ivar warn_only: checks whose failure is only a warning.
    :ivar limits: the site's limits, by the names of thresholds; they override the limits of the VM size.
    :ivar options: other options of checks, by the check's name.
    :ivar prometheus: folder of the Prometheus text files; empty for no files; None for the node exporter's usual folder
        if that exists.
    """

    off: tuple[str, ...] = ()
    warn_only: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    prometheus: str | None = None

    def threshold(self, size: VmSize | None, name: str) -> Threshold | None:
        """Return the limit of this name: the site's, or else the VM size's; None if neither has one.

        A site's limit has the unit and the direction of the VM size's limit; if that size has none, of the first VM
        size that has one.
        """
        stated = size.thresholds.get(name) if size else None
        if name not in self.limits:
            return stated
        form = stated or _form_of(name)
        return replace(form, limit=self.limits[name], source=SITE, warn=None, typical=None)

    def option(self, check: str, name: str, default: Any) -> Any:
        """Return an option of a check, or the default if the file does not have it.

        :raises ConfigError: the value is not of the default's type.
        """
        value = self.options.get(check, {}).get(name, default)
        if is_like(value, default):
            return value
        raise ConfigError(f"{FILE}: options.{check}.{name} is {value!r}, but must be like {default!r}.")


def is_like(value: object, default: object) -> bool:
    """Return whether a value has the type of a default. Numbers must be finite: no value is above or below NaN."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float)) and -math.inf < value < math.inf
    if isinstance(default, (list, tuple)):
        return isinstance(value, (list, tuple))
    return isinstance(value, type(default))


def _form_of(name: str) -> Threshold:
    # Imported here, because it loads the facts of all sizes, and few sites set limits that their VM size lacks.
    from ..sku import all_sizes

    stated = (size.thresholds[name] for size in all_sizes().values() if name in size.thresholds)
    return next(stated, Threshold(0, "", SITE))


def in_words(threshold: Threshold) -> str:
    """Return a limit as text, e.g. ``at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)``."""
    bound = "at most" if threshold.at_most else "at least"
    unit = f" {threshold.unit}" if threshold.unit else ""
    at = f" at {threshold.at}" if threshold.at else ""
    return f"{bound} {threshold.limit:g}{unit}{at} ({source_in_words(threshold.source)})"


def source_in_words(letters: str) -> str:
    """Return the name of the first source of these letters (``SOURCES``)."""
    if letters == SITE:
        return FILE
    words = SOURCES[letters.split(", ", maxsplit=1)[0]]
    return words.split(": ", maxsplit=1)[0]
