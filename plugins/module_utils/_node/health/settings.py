# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The site's settings of the health checks, in /etc/hpcai/health.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable

from ..machine.config import FOLDER, ConfigError, read_config
from ..machine.root import Root
from ..sku.types import Threshold, VmSize
from .refusals import OFF, is_like, refusals

if TYPE_CHECKING:
    from .check import Check

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

    def option(self, check: Check, name: str, default: Any = None) -> Any:
        """Return an option of a check, or where the file does not have it the default that its manifest names.

        :param default: in place of the manifest's, where only the machine tells it.
        :raises ConfigError: it is not of the default's kind.
        """
        usual = check.options[name] if default is None else default
        value = self.options.get(check.name, {}).get(name, usual)
        if is_like(value, usual):
            return value
        raise ConfigError(f"{FILE}: options.{check.name}.{name} is {value!r}, and must be like {usual!r}.")


def read_settings(root: Root, names: Sequence[str], manifests: Callable[[], Sequence[Check]]) -> Settings:
    """Return the site's settings; those of an empty file where there is none.

    :param names: of the checks there are.
    :param manifests: loads them; called where the settings have limits or options.
    :raises ConfigError: the file cannot be used, or names what no check knows; the message says what to do.
    """
    said = read_config(root, CONFIG) or {}
    wrong = list(refusals(said, names, manifests))
    if wrong:
        raise ConfigError(f"{root.at(FILE)}: {'; '.join(wrong)}: {_MEND}.")
    return Settings(
        off=tuple(said.get(OFF) or ()),
        warn_only=tuple(said.get("warn_only") or ()),
        limits=said.get("limits") or {},
        options=said.get("options") or {},
        prometheus=said.get("prometheus"),
    )


_MEND = "mend health_checks_config in the inventory and run the playbook again"


def _form_of(name: str) -> Threshold:
    # Not above: it brings the facts of all sizes, and few sites have limits that their size has not.
    from ..sku import all_sizes

    stated = (size.thresholds[name] for size in all_sizes().values() if name in size.thresholds)
    return next(stated, Threshold(0, "", SITE))
