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
from collections.abc import Callable, Iterable, Iterator

import monitoring_pages
import psutil
import pytest
from browser import chromium
from stand_ins.monitor import Server, free_port, prometheus

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool: tests/setup/host.sh installs it"),
    pytest.mark.skipif(chromium.find() is None, reason="no browser: tests/setup/host.sh installs one"),
]
NODES, HOURS, EVERY_S = 600, 6, 60
EACH = 8
"""GPUs and InfiniBand ports of a node."""
FEW_NODES = 60
MOST_TIMES = 15
"""A page about 600 nodes may take so many times the CPU time of one about 60. Seconds depend on the machine: those of a
quiet one are in docs/evidence.md.
"""
RARE = 20
"""One of so many nodes has errors of its ports."""
JOB = 117
"""It has all GPUs."""
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
PAGES = [page["name"] for page in monitoring_pages.panels()]
SHOWN = {
    "checks": {"td, th": NODES * (len(NAMES) + 1)},
    "faults": {"td": 3 * NODES, "path": NODES},
    "gpus": {"rect": NODES * 200},
    "infiniband": {"td": NODES // RARE * EACH * 4, "path": 3 * NODES},
    "job": {"td": 4 * NODES, "path": 2 * NODES},
    "nodes": {"td": 5 * NODES},
}
"""The least number of elements in a page."""


def moments(now: int) -> range:
    """When Prometheus has values."""
    return range(now - HOURS * 3600, now + 1, EVERY_S)


def states(now: int, nodes: int, out: int) -> Iterator[str]:
    """The nodes' states, and drained nodes."""
    yield "# TYPE hpcai_slurm_nodes gauge"
    for moment in moments(now):
        drained = out * (moment - now + HOURS * 3600) // (HOURS * 3600)
        for state in STATES:
            count = {"drained": drained, "allocated": nodes - drained}.get(state, 0)
            yield f'hpcai_slurm_nodes{{set="compute",state="{state}"}} {count} {moment}'
    yield "# TYPE hpcai_slurm_node_out gauge"
    for number in range(out):
        labels = f'instance="ctl",node="compute-{number}",set="compute",state="drained"'
        yield f'hpcai_slurm_node_out{{{labels},reason="hpcai: health: gpu_count: 7 of 8"}} 1 {now}'
    yield "# TYPE hpcai_slurm_node_out_since_seconds gauge"
    for number in range(out):
        yield f'hpcai_slurm_node_out_since_seconds{{instance="ctl",node="compute-{number}"}} {now - 60 * number} {now}'


def health(now: int, nodes: int, out: int) -> Iterator[str]:
    """The newest health checks."""
    yield "# TYPE hpcai_health_check_verdict gauge"
    for number in range(nodes):
        for check in NAMES:
            verdict = "fail" if (check, number < out) == ("gpu_count", True) else "pass"
            labels = f'instance="compute-{number}",tier="periodic",check="{check}",verdict="{verdict}"'
            yield f"hpcai_health_check_verdict{{{labels}}} 1 {now}"
    for name, tier, value in (
        ("hpcai_health_tier_current", "periodic", now),
        ("hpcai_health_run_seconds", "prolog", 2),
    ):
        yield f"# TYPE {name} gauge"
        for number in range(nodes):
            yield f'{name}{{instance="compute-{number}",tier="{tier}"}} {value} {now}'


def series(
    now: int,
    name: str,
    labels: Iterable[str],
    value: Callable[[int], int],
    every: int = 1,
) -> Iterator[str]:
    """Series with values in all hours.

    :param value: returns the value of a minute.
    :param every: leave out all minutes but each one of so many.
    """
    yield f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}"
    stamps = [f"{value(minute)} {moment}" for minute, moment in enumerate(moments(now))][::every]
    for one in labels:
        head = f"{name}{{{one}}} "
        yield "\n".join([head + stamp for stamp in stamps])


def devices(now: int, count: int) -> Iterator[str]:
    """GPUs, InfiniBand ports, and a job that has all GPUs, in all hours."""
    nodes = [f'instance="compute-{number}",node="compute-{number}"' for number in range(count)]
    gpus = [f'{node},gpu="{gpu}"' for node in nodes for gpu in range(EACH)]
    ports = [f'{node},device="mlx5_ib{port}",port="1"' for node in nodes for port in range(EACH)]
    yield from series(now, "DCGM_FI_DEV_GPU_UTIL", gpus, lambda minute: minute * 37 % 100)
    yield from series(now, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", gpus, lambda minute: minute)
    for name in ("data_received_bytes", "data_transmitted_bytes", "transmit_wait"):
        yield from series(
            now, f"node_infiniband_port_{name}_total", ports, lambda minute: (10**9 + minute * 7919) * minute
        )
    for name in ("link_downed", "symbol_error", "port_errors_received"):
        faulty = [port for number, port in enumerate(ports) if number // EACH % RARE == 0]
        yield from series(now, f"node_infiniband_{name}_total", faulty, lambda minute: minute, 5)
    job = f'job_id="{JOB}"'
    held = f'instance="ctl",{job},user="alice",partition="p"'
    yield from series(now, "hpcai_job_info", [f"{held},{gpu.split(',', 1)[1]}" for gpu in gpus], lambda _minute: 1)
    steps = [f"{node},{job}" for node in nodes]
    yield from series(now, "hpcai_job_train_step_seconds", steps, lambda minute: minute % 7)
    yield from series(now, "hpcai_job_start_seconds", [f'instance="ctl",{job}'], lambda _minute: now - HOURS * 3600)


def cpu_seconds() -> dict[int, float]:
    """The CPU seconds of each process that this one has started."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def store(folder: pathlib.Path, now: int, nodes: int, out: int) -> None:
    """Store metrics as Prometheus' data.

    :param out: how many nodes are drained.
    """
    source = folder / "metrics.txt"
    with source.open("w", encoding="ascii") as file:
        for part in (states(now, nodes, out), health(now, nodes, out), devices(now, nodes), ["# EOF"]):
            file.writelines(f"{line}\n" for line in part)
    words = [str(PROMTOOL), "tsdb", "create-blocks-from", "--max-block-duration=12h", "openmetrics", str(source)]
    subprocess.run([*words, str(folder / "data")], check=True, capture_output=True)
    source.unlink()


@contextlib.contextmanager
def monitored(folder: pathlib.Path, nodes: int) -> Iterator[Server]:
    """Prometheus with the metrics of now, which it finds for half an hour: this machine may be busy."""
    store(folder, int(time.time()), nodes, nodes)
    lookback = "--query.lookback-delta=30m"
    with prometheus(folder, "global: {}\n", free_port(), options=[lookback]) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The monitor of 600 nodes."""
    with monitored(tmp_path_factory.mktemp("large"), NODES) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The monitor of 60 nodes."""
    with monitored(tmp_path_factory.mktemp("small"), FEW_NODES) as running:
        yield running


def opened(server: Server, page: str) -> tuple[float, dict[str, int], list[str]]:
    """The CPU seconds of Prometheus and the browser for a page, the numbers of its elements, and views that failed."""
    with chromium.browser() as tab:
        # The first page also starts the browser.
        tab.open(f"{server.url}/consoles/hpcai.html", 1400, 1000)
        before = cpu_seconds()
        tab.open(f"{server.url}/consoles/hpcai-{page}.html?job={JOB}", 1400, 1000)
        tab.wait("[...document.querySelectorAll('[data-kind]')].every(one => one.dataset.state !== 'asks')", 120)
        took = sum(seconds - before.get(pid, 0) for pid, seconds in cpu_seconds().items())
        shown = {
            what: tab.run(f"document.querySelector('main').querySelectorAll('{what}').length")
            for what in SHOWN.get(page, {})
        }
        failed = tab.run("[...document.querySelectorAll('[data-state=failed]')].map(one => one.textContent)")
    return took, shown, failed


@pytest.mark.parametrize("page", PAGES)
def test_the_time_of_a_page_grows_at_most_with_the_number_of_nodes(
    server: Server, small: Server, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few, _shown, _failed = opened(small, page)
    took, shown, failed = opened(server, page)
    with capsys.disabled():
        print(f"\npage {page}: {took:.2f} CPU seconds, with {FEW_NODES} nodes {few:.2f}; {shown}")
    assert not failed
    assert all(shown[what] >= least for what, least in SHOWN.get(page, {}).items()), shown
    assert took < MOST_TIMES * few
