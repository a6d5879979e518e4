# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provision stacks of several sizes in an empty simulated subscription: requests and seconds of each run.

The simulator answers at once and makes resources in no time, so the seconds are those of the client and the simulator
together. What counts in Azure is the number of requests. The least is one read for each resource of the stack.

Run it with `tests/benchmarks/run.sh provision`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import statistics
import sys
import time
from typing import Any

from contract.stack.cloud import EMPTY, IMAGE, Azure, smallest
from simulator.testing import running

SETS = (1, 3, 30)


def stack(count: int) -> dict[str, Any]:
    """A stack of this many scale sets."""
    one = {"vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE}
    return smallest(scale_sets=[{**one, "name": f"compute{number}"} for number in range(count)])


def timed(azure: Azure, wanted: dict[str, Any], **options: Any) -> tuple[dict[str, Any], float]:
    """Run the module silently, and return its result and the seconds that it took."""
    before = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        result = azure.run(wanted, **options)
    return result, time.monotonic() - before


def measure(count: int) -> list[str]:
    """The cells of a row: the first run, the second one, and a new scale set."""
    with running(EMPTY) as simulator:
        azure = Azure(simulator)
        first, first_s = timed(azure, stack(count))
        second, second_s = timed(azure, stack(count))
        assert not second["changed"], second["diff"]
        grown, grown_s = timed(azure, stack(count + 1))
        runs = ((first, first_s), (second, second_s), (grown, grown_s))
        cells = [f"{one['requests']['reads']} + {one['requests']['writes']}, {seconds:.2f} s" for one, seconds in runs]
        return [str(count), str(len(first["changes"])), *cells]


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, nargs="+", default=SETS, help="numbers of scale sets")
    options = parser.parse_args()
    with running(EMPTY) as simulator:
        path = f"/subscriptions/{simulator.subscription_id}"
        reads = []
        for _round in range(30):
            before = time.monotonic()
            simulator.arm("GET", path, version="2022-12-01")
            reads.append(time.monotonic() - before)
    floor_ms = 1000 * statistics.median(reads)
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs; one bare read takes {floor_ms:.1f} ms\n")
    print("| scale sets | resources | first run: reads + writes | second run | one more set |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for count in options.sets:
        print(f"| {' | '.join(measure(count))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
