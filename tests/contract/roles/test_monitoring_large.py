# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The console pages of a cluster of 600 nodes, in Chromium with the real Prometheus."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator

import psutil
import pytest
from browser import chromium
from stand_ins.monitor import Server, free_port, prometheus

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool: tests/setup/host.sh installs it"),
    pytest.mark.skipif(chromium.find() is None, reason="no browser: tests/setup/host.sh installs one"),
]
NODES, HOURS, EVERY_S = 600, 6, 60
LIMIT_S = 5.0
"""CPU seconds of Prometheus and the browser together: other work on the machine does not change them much."""
STATES = (
    "allocated",
    "completing",
    "down",
    "drained",
    "draining",
    "idle",
    "mixed",
    "other",
    "powered_down",
    "reserved",
)


def metrics(now: int, out: int = NODES) -> Iterator[str]:
    """Six hours of the nodes' states, and the newest health checks and drained nodes, in OpenMetrics' format.

    :param out: how many nodes are drained.
    """
    yield "# TYPE hpcai_slurm_nodes gauge"
    for moment in range(now - HOURS * 3600, now + 1, EVERY_S):
        drained = out * (moment - now + HOURS * 3600) // (HOURS * 3600)
        for state in STATES:
            count = {"drained": drained, "allocated": NODES - drained}.get(state, 0)
            yield f'hpcai_slurm_nodes{{set="compute",state="{state}"}} {count} {moment}'
    nodes = [f"compute-{number}" for number in range(NODES)]
    yield "# TYPE hpcai_health_check_verdict gauge"
    for number, node in enumerate(nodes):
        for check in NAMES:
            verdict = "fail" if (check, number < out) == ("gpu_count", True) else "pass"
            labels = f'instance="{node}",tier="periodic",check="{check}",verdict="{verdict}"'
            yield f"hpcai_health_check_verdict{{{labels}}} 1 {now}"
    for name, value in (("hpcai_health_tier_current", now), ("hpcai_health_run_seconds", 2)):
        yield f"# TYPE {name} gauge"
        for node in nodes:
            yield f'{name}{{instance="{node}",tier="periodic"}} {value} {now}'
    yield "# TYPE hpcai_slurm_node_out gauge"
    for node in nodes[:out]:
        labels = f'instance="ctl",node="{node}",set="compute",state="drained",reason="hpcai: health: gpu_count: 7 of 8"'
        yield f"hpcai_slurm_node_out{{{labels}}} 1 {now}"
    yield "# TYPE hpcai_slurm_node_out_since_seconds gauge"
    for number, node in enumerate(nodes[:out]):
        yield f'hpcai_slurm_node_out_since_seconds{{instance="ctl",node="{node}"}} {now - 60 * number} {now}'
    yield "# EOF"


def cpu_seconds() -> dict[int, float]:
    """The CPU seconds of each process that this one has started."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def store(folder: pathlib.Path, lines: Iterable[str]) -> None:
    """Store metrics as Prometheus' data."""
    source = folder / "metrics.txt"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    words = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder / "data")]
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Prometheus with the metrics of now. It finds values of the last five minutes."""
    folder = tmp_path_factory.mktemp("large")
    store(folder, metrics(int(time.time())))
    with prometheus(folder, "global: {}\n", free_port()) as running:
        yield running


@pytest.mark.parametrize(
    ("page", "cells"), [("checks", NODES * (len(NAMES) + 1)), ("nodes", NODES * 5)], ids=["checks", "nodes"]
)
def test_a_page_about_600_nodes_takes_at_most_five_seconds(server: Server, page: str, cells: int) -> None:
    with chromium.browser() as tab:
        # The first page also starts the browser.
        tab.open(f"{server.url}/consoles/hpcai.html", 1400, 1000)
        before = cpu_seconds()
        tab.open(f"{server.url}/consoles/hpcai-{page}.html", 1400, 1000)
        tab.wait("[...document.querySelectorAll('[data-kind]')].every(one => one.dataset.state === 'done')")
        took = sum(seconds - before.get(pid, 0) for pid, seconds in cpu_seconds().items())
        shown = tab.run("[...document.querySelectorAll('main tr')].reduce((sum, row) => sum + row.children.length, 0)")
        print(f"page {page}: {took:.2f} CPU seconds, {shown} cells")
        assert shown >= cells
        assert took < LIMIT_S
