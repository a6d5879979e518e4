# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a site can set of the health checks, and limits in words."""

from __future__ import annotations

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
    """What the file says.

    :ivar off: checks that are not run; each is shown as skip, and the reason says so.
    :ivar warn_only: checks whose failure is a warning here.
    :ivar limits: limits of the site's own by the names of thresholds; they go before those of the VM size.
    :ivar options: other options of checks, by the check's name.
    :ivar prometheus: folder of the Prometheus text files; empty for none; None for the node exporter's usual one where
        that is there.
    """

    off: tuple[str, ...] = ()
    warn_only: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    prometheus: str | None = None

    def threshold(self, size: VmSize | None, name: str) -> Threshold | None:
        """Return the limit of this name: the site's, or else the VM size's; None where neither has one.

        The site's has the unit and the direction of the VM size's, and where that has none, of the first size's that
        has one.
        """
        stated = size.thresholds.get(name) if size else None
        if name not in self.limits:
            return stated
        form = stated or _form_of(name)
        return replace(form, limit=self.limits[name], source=SITE, warn=None, typical=None)

    def option(self, check: str, name: str, default: Any) -> Any:
        """Return an option of a check, or the default where the file does not have it.

        :raises ConfigError: it is not of the default's kind.
        """
        value = self.options.get(check, {}).get(name, default)
        if is_like(value, default):
            return value
        raise ConfigError(f"{FILE}: options.{check}.{name} is {value!r}, and must be like {default!r}.")


def is_like(value: object, default: object) -> bool:
    """Whether a value is of a default's kind."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float))
    if isinstance(default, (list, tuple)):
        return isinstance(value, (list, tuple))
    return isinstance(value, type(default))


def _form_of(name: str) -> Threshold:
    # Not above: it brings the facts of all sizes, and few sites have limits that their size has not.
    from ..sku import all_sizes

    stated = (size.thresholds[name] for size in all_sizes().values() if name in size.thresholds)
    return next(stated, Threshold(0, "", SITE))


def in_words(threshold: Threshold) -> str:
    """Return a limit for people, e.g. ``at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)``."""
    bound = "at most" if threshold.at_most else "at least"
    unit = f" {threshold.unit}" if threshold.unit else ""
    at = f" at {threshold.at}" if threshold.at else ""
    return f"{bound} {threshold.limit:g}{unit}{at} ({source_in_words(threshold.source)})"


def source_in_words(letters: str) -> str:
    """Return the name of the first of the sources that letters of ``SOURCES`` stand for."""
    if letters == SITE:
        return FILE
    words = SOURCES[letters.split(", ", maxsplit=1)[0]]
    return words.split(": ", maxsplit=1)[0]
