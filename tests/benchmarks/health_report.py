# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report of recorded results for clusters of several sizes, and open its page in a browser.

Each node has forty checks with about two hundred readings, as in the deep tier. The benchmark measures the seconds for
the report, its size and that of the nodes' own documents, and, if there is a browser, the milliseconds from opening the
page until it can be used, and for a letter typed into the search.

Run it with `tests/benchmarks/run.sh health_report`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from browser import chromium
from stand_ins.health_results import TIME, cluster

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.output import HTML, write_report

SIZES = (12, 600, 2000)
TYPE = """(() => {
  const q = document.getElementById("q");
  const from = performance.now();
  for (const letter of "compute-12") { q.value += letter; q.dispatchEvent(new Event("input")); }
  return (performance.now() - from) / 10;
})()"""


def build(results: list[dict[str, Any]], folder: str) -> float:
    """Build and write the report, and return the seconds that it took."""
    before = time.monotonic()
    nodes = [NodeResult(one["host"], one["result"], one["inventory"]) for one in results]
    write_report(compare(gather(nodes, tier="deep", time=TIME, cluster="trainer")), folder)
    return time.monotonic() - before


def look(page: chromium.Page, file: Path) -> tuple[float, float, float]:
    """Open the page. Returns the milliseconds until it can be used, for a letter, and for all charts of values."""
    page.open(file.as_uri())
    page.wait("document.documentElement.dataset.painted")
    usable = float(page.run("document.documentElement.dataset.usable"))
    letter = float(page.run(TYPE))
    page.open(f"{file.as_uri()}#view=nodes")
    page.wait("document.documentElement.dataset.painted")
    values = page.run(
        "(() => { const from = performance.now(); document.getElementById('tab-values').click();"
        " return performance.now() - from; })()"
    )
    return usable, letter, float(values)


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the results are medians (default: 3)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of nodes")
    parser.add_argument("--no-browser", action="store_true", help="only build the report")
    options = parser.parse_args()
    has_browser = not options.no_browser and chromium.find() is not None
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, median of {options.repeat} runs\n")
    print("| nodes | readings | their documents | seconds | report.html | report.json | usable | a letter | values |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for count in options.sizes:
        results = cluster(count)
        documents = sum(len(json.dumps(one["result"])) for one in results)
        checks = [one["result"].get("health", {}).get("checks", ()) for one in results]
        readings = sum(len(check["readings"]) for node in checks for check in node)
        with tempfile.TemporaryDirectory() as folder:
            taken, looks = [], []
            for _round in range(options.repeat):
                for file in Path(folder).iterdir():
                    file.unlink()
                taken.append(build(results, folder))
                if has_browser:
                    with chromium.browser() as page:
                        looks.append(look(page, Path(folder) / HTML))
            sizes = [(Path(folder) / name).stat().st_size / 1e6 for name in (HTML, "report.json")]
        shown = (
            [f"{statistics.median(each):.0f} ms" for each in zip(*looks, strict=True)]
            if has_browser
            else ["no browser"] * 3
        )
        cells = [f"{count:,}", f"{readings:,}", f"{documents / 1e6:.1f} MB", f"{statistics.median(taken):.2f}"]
        print(f"| {' | '.join([*cells, *(f'{size:.1f} MB' for size in sizes), *shown])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
