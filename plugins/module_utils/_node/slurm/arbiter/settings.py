# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of the arbiter, in /etc/hpcai/health_arbiter.json on the controller."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ...machine.config import FOLDER, ConfigError, read_config
from ...machine.root import Root
from .report import MOST_RUNS

CONFIG = "health_arbiter"
FILE = f"{FOLDER}/{CONFIG}.json"
DRAINS, WINDOW_S = 3, 24 * 3600.0
"""So many drains of a machine in so many seconds end its return by itself: it is not mended, it comes and goes."""
_PERCENT = re.compile(r"(\d{1,3})%")


@dataclass(frozen=True)
class Settings:
    """What the file says.

    :ivar max_out: how many nodes may be out by the arbiter's hand at a time: a number, or a share as ``10%``, rounded
        up. One machine in ten is more than break in a day or two; where more fail, the cause is more likely one thing
        they share, such as a new driver, a check that errs, or the fabric, and to drain all would end all work.
    :ivar interval_s: seconds between two looks.
    :ivar stale_s: how old a report may be. Nodes write it anew every ten minutes.
    :ivar confirm: how often running a check must have failed before its node is drained, by its name; once otherwise.
    :ivar escalate: whether nodes that drains did not help are restarted, and marked for replacement after that.
    :ivar restart_s: how long a restart may take before somebody is told.
    :ivar records: file of what is known of each machine.
    :ivar metrics: folder of the Prometheus text file; empty for none, None for the node exporter's usual one where
        that is there.
    """

    max_out: str = "10%"
    interval_s: float = 10.0
    stale_s: float = 1800.0
    confirm: Mapping[str, int] = field(default_factory=dict)
    escalate: bool = False
    restart_s: float = 3600.0
    records: str = "/var/lib/hpcai/health/arbiter.json"
    metrics: str | None = None

    def allowed(self, nodes: int) -> int:
        """Return how many of so many nodes may be out."""
        share = _PERCENT.fullmatch(self.max_out)
        return math.ceil(nodes * int(share[1]) / 100) if share else int(self.max_out)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None where the file is not there, and no arbiter should run.

    :raises ConfigError: the file cannot be used; the message says what to do.
    """
    said = read_config(root, CONFIG)
    if said is None:
        return None
    wrong = next(refusals(said), "")
    if wrong:
        raise ConfigError(f"{root.at(FILE)}: {wrong}: {_MEND}.")
    return Settings(**{**said, **({"max_out": str(said["max_out"])} if "max_out" in said else {})})


def refusals(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with settings, each in words that begin with the key."""
    known = [one.name for one in fields(Settings)]
    for key, value in said.items():
        if key not in known:
            yield f"there is no key {key}; there are {', '.join(known)}"
        elif problem := _problem(key, str(value) if key == "max_out" else value):
            yield f"{key} is {value!r}, and must be {problem}"


_MEND = "mend health_checks_arbiter in the inventory and run the playbook again"


def _problem(key: str, value: Any) -> str:
    """What a value should be; nothing where it is that."""
    if key == "max_out":
        share = _PERCENT.fullmatch(value)
        is_good = int(share[1]) <= 100 if share else value.isdecimal()
        return "" if is_good else "a number of nodes, or a share as '10%'"
    if key in ("interval_s", "stale_s", "restart_s"):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return "" if is_number and value > 0 else "a number of seconds above 0"
    if key == "confirm":
        is_good = isinstance(value, dict) and all(
            isinstance(runs, int) and not isinstance(runs, bool) and 1 <= runs <= MOST_RUNS for runs in value.values()
        )
        return "" if is_good else f"a mapping of checks to numbers from 1 to {MOST_RUNS}"
    if key == "escalate":
        return "" if isinstance(value, bool) else "true or false"
    if key == "metrics" and (value is None or value == ""):
        return ""
    return "" if isinstance(value, str) and value.startswith("/") else "an absolute path"
