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
"""After this many drains in this many seconds, a machine is not resumed automatically: its fault is intermittent."""
_PERCENT = re.compile(r"(\d{1,3})%")


@dataclass(frozen=True)
class Settings:
    """The content of the file.

    :ivar max_out: the drain limit: how many nodes the arbiter may drain at a time, as a number, or as a share such as
        ``10%``, rounded up. Fewer than 10 % of machines break within a day or two. If more fail, the cause is probably
        common to them, such as a new driver, a wrong check, or the fabric, and draining all would stop all work.
    :ivar interval_s: seconds between two passes.
    :ivar stale_s: maximum age of a report. Nodes repeat it every ten minutes.
    :ivar confirm: how many consecutive runs of a check must fail before its node is drained, by check name; default 1.
    :ivar escalate: whether nodes that still fail are restarted, and then marked for replacement.
    :ivar restart_s: how long a restart may take before an alert.
    :ivar capture_s: how long a drained node keeps its state before it is restarted or marked for replacement, so that
        it can collect diagnostics (``hpcai-diag.service``).
    :ivar records: file with the records of machines.
    :ivar metrics: folder for the Prometheus text file; empty for none, None for the node exporter's usual folder if it
        exists.
    """

    max_out: str = "10%"
    interval_s: float = 10.0
    stale_s: float = 1800.0
    confirm: Mapping[str, int] = field(default_factory=dict)
    escalate: bool = False
    restart_s: float = 3600.0
    capture_s: float = 0.0
    records: str = "/var/lib/hpcai/health/arbiter.json"
    metrics: str | None = None

    def allowed(self, nodes: int) -> int:
        """Return the drain limit for this number of nodes."""
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
        "capture_s": number(0, 3600),
        "records": absolute_path,
        "metrics": or_empty(absolute_path),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None if there is no file, so that no arbiter should run.

    :raises ConfigError: the file is invalid; the message says what to do.
    """
    return read_checked(root, CONFIG, FORM)
