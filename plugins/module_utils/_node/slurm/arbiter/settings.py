# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of the arbiter, in /etc/hpcai/health_arbiter.json on the controller."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...forms import absolute_path, boolean, instance_of, mapping_of, matching, number, or_empty, string
from ...machine.config import FOLDER, read_checked
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


_SECONDS = number(0, above=True)
_NODES = matching(r"[0-9]+|(100|0?[0-9]{1,2})%", "a number of nodes, or a share as '10%'")
FORM = instance_of(
    Settings,
    {
        "max_out": lambda path, value: _NODES(path, value if isinstance(value, str) else str(value)),
        "interval_s": _SECONDS,
        "stale_s": _SECONDS,
        "confirm": mapping_of(string, number(1, MOST_RUNS, integral=True)),
        "escalate": boolean,
        "restart_s": _SECONDS,
        "records": absolute_path,
        "metrics": or_empty(absolute_path),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None where the file is not there, and no arbiter should run.

    :raises ConfigError: the file cannot be used; the message says what to do.
    """
    return read_checked(root, CONFIG, FORM)
