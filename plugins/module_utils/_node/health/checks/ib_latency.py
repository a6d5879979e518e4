# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether each InfiniBand adapter answers as fast as it should."""

from __future__ import annotations

from ..check import DEEP, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..deep import perftest, tools
from ..deep.applies import infiniband
from ..deep.compare import compared, outliers
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..limits import in_words
from ..parsers.perftest import latency_us

NAME = "ib_latency"
LIMIT = "ib_latency_local"

_RUN_S = 30.0
_WHAT = "the latency of writes"
_HINT = "Look at the port's errors: hpcnode health run periodic --only ib_errors; then replace the node"


def measure(context: Context) -> Answer:
    """Run ``ib_write_lat`` on each adapter with itself."""
    ports = perftest.active_ports(context)
    path = tools.needed(context, CHECK, "ib_write_lat", perftest.FOLDERS, perftest.SOURCE)
    must_be_idle(context, CHECK)
    threshold = context.settings.threshold(context.size, LIMIT)
    readings, found = [], []
    for port in ports:
        said, wrong = perftest.between(context, path, port, (), _RUN_S)
        found += wrong
        value = latency_us(said)
        if value is not None:
            limit = threshold.limit if threshold else None
            readings.append(Reading(LIMIT, value, "us", port.label, limit, at_most=True))
        elif not wrong:
            found.append(Finding(UNKNOWN, f"ib_write_lat on {port.label} printed no latency", port.label))
    found += compared(readings, threshold, _WHAT, _HINT) if threshold else outliers(readings, _WHAT)
    slowest = max((float(one.value) for one in readings), default=0)
    good = f"{len(readings)} adapters, the slowest with {slowest:.3g} us"
    return Answer(good, tuple(readings), tuple(found), in_words(threshold) if threshold else "")


CHECK = Check(
    name=NAME,
    title="latency of the adapters",
    explain="Runs ib_write_lat on each InfiniBand adapter with itself and compares the typical latency with the size's "
    "limit (azurehpc, experimental/ndv4_a100_healthchecks); where there is none, with the node's other adapters.",
    tiers=(DEEP,),
    measure=measure,
    applies=infiniband,
    limit_s=8 * 2 * _RUN_S + 60,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=(LIMIT,),
    options=WITH_PROGRAM,
)
