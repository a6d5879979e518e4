# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every view of every page has data from the product's own metrics, and changes when its fault is there. The selectors
of all alerts find series.

Real Prometheus, Alertmanager and node exporters, and Chromium for the console pages.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import monitoring_pages
import pytest
import yaml
from browser import chromium
from stand_ins.http_service import Service
from stand_ins.monitor import ROLE, Server, alertmanager, free_port, node_exporter, prometheus, render, wait
from stand_ins.monitored import JOB, SHORT, Monitored, dcgm

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import credentials
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.status import metrics

VIEWS = [
    pytest.param(page, view, id=f"{page['name']}: {view['title']}")
    for page in monitoring_pages.panels()
    for view in page["views"]
]
RULES = [
    pytest.param(rule, id=str(rule.get("alert", rule.get("record"))))
    for group in yaml.safe_load((ROLE / "files/hpcai.rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
CHANGES_S = 60.0
# One machine never answers, another one stops to answer.
NEVER, STOPS = "compute-9", "compute-8"
CONTROLLER = {"instance": "ctl", "function": "controller", "__controller": "true"}


class Cluster:
    """Prometheus and the machines that it scrapes."""

    def __init__(self, server: Server, machines: Monitored, pages: Service, ends: Service) -> None:
        self.server, self.machines, self._pages, self._ends = server, machines, pages, ends
        self.gpus = pages.port
        self.faulty = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def _keep(self) -> None:
        while not self._ended.wait(0.5):
            self.write()

    def write(self) -> None:
        """Write the metrics as they are now."""
        self.machines.write(self.faulty)
        text = {"Content-Type": "text/plain; version=0.0.4"}
        self._pages.answers[:] = [(200, text, dcgm(self.faulty).encode())]
        self._ends.answers[:] = [(503, {}, b"")] if self.faulty else [(200, text, b"x 1\n")]

    def start(self) -> None:
        """Keep the metrics fresh."""
        self._thread.start()

    def end(self) -> None:
        """Stop that."""
        self._ended.set()
        self._thread.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, evaluate: Callable[..., Any]) -> Iterator[Cluster]:
    """A cluster that was healthy for some seconds."""
    folder = tmp_path_factory.mktemp("monitor")
    machines = Monitored(folder)
    machines.write(False)
    pages, ends, store = Service((200, {}, b"")), Service((200, {}, b"")), Service((204, {}, b""))
    port, alerts_port = free_port(), free_port()
    written = {"monitoring_remote_write": [{"name": "store", "url": f"{store.endpoint}/write"}]}
    config = render(evaluate, "prometheus.yml.j2", folder, monitoring_interval=1, monitoring_dcgm_port=1, **written)
    config = config.replace(":9090", f":{port}").replace(":9093", f":{alerts_port}")
    config = config.replace("refresh_interval: 1m", "refresh_interval: 1s")
    (folder / "targets").mkdir()
    with (
        alertmanager(folder, render(evaluate, "alertmanager.yml.j2", folder), alerts_port),
        node_exporter(machines.controller) as controller,
        node_exporter(machines.node, machines.sys / "sys") as node,
    ):
        identity = {"set": "compute", "function": "compute", "vm_id": "3f6a0c9e-0000-4000-8000-000000000001"}
        targets = [
            {"targets": [f"127.0.0.1:{controller}"], "labels": CONTROLLER},
            {"targets": [f"127.0.0.1:{node}"], "labels": {"instance": "compute-0", "node": "compute-0", **identity}},
            {"targets": [f"127.0.0.1:{free_port()}"], "labels": {"instance": NEVER, "node": NEVER, **identity}},
            {"targets": [f"127.0.0.1:{ends.port}"], "labels": {"instance": STOPS, "node": STOPS, **identity}},
        ]
        gpus = [{"targets": [f"127.0.0.1:{pages.port}"], "labels": {"instance": "compute-0", "node": "compute-0"}}]
        (folder / "targets/nodes.json").write_text(json.dumps(targets), encoding="utf-8")
        (folder / "targets/dcgm.json").write_text(json.dumps(gpus), encoding="utf-8")
        with prometheus(folder, config, port) as server:
            made = Cluster(server, machines, pages, ends)
            made.start()
            yield made
            made.end()


def expression(page: dict[str, Any], view: dict[str, Any]) -> str:
    """The query of a view, for the job while it runs."""
    return str(view["query"]).replace(" offset $past", "").replace("$job", str(JOB))


@pytest.fixture(scope="module")
def before_and_after(cluster: Cluster) -> dict[str, tuple[Any, Any]]:
    """The answer to each query without faults, and with all faults, once everything has changed or time is over."""
    queries = {expression(page, view) for page in monitoring_pages.panels() for view in page["views"]}
    server = cluster.server
    wait(lambda: server.query("hpcai:job_gpu_util:avg30m"), lambda: server.query("up"))
    wait(
        lambda: server.query("rate(node_infiniband_port_data_received_bytes_total[5m]) > 0"),
        lambda: server.query("node_infiniband_info"),
    )
    before = {one: server.query(one) for one in queries}
    cluster.faulty = True
    after: dict[str, Any] = {}
    deadline = time.monotonic() + CHANGES_S
    while time.monotonic() < deadline and (
        rest := [one for one in queries if not differs(before[one], after.get(one))]
    ):
        time.sleep(1)
        after.update({one: server.query(one) for one in rest})
    return {one: (before[one], after[one]) for one in queries}


def differs(before: list[dict[str, Any]], after: list[dict[str, Any]] | None) -> bool:
    """Whether an answer has data, and another one than before."""

    def values(found: list[dict[str, Any]]) -> dict[str, float]:
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in found}

    if not after:
        return False
    old, new = values(before), values(after)
    return old.keys() != new.keys() or any(abs(new[key] - old[key]) > 0.001 * abs(old[key]) for key in new)


@pytest.mark.parametrize(("page", "view"), VIEWS)
def test_each_view_has_data_and_changes_with_its_fault(
    before_and_after: dict[str, tuple[Any, Any]], page: dict[str, Any], view: dict[str, Any]
) -> None:
    before, after = before_and_after[expression(page, view)]
    assert after, "no data"
    assert differs(before, after), (before, after)
    labels = {"columns": view.get("columns"), "legend": view.get("legend"), "rows": [view.get("rows")]}
    shown = {label for listed in labels.values() for label in listed or [] if label}
    missing = {label for label in shown if not any(label in one["metric"] for one in after)}
    assert not missing


def selectors(expression: str) -> set[str]:
    """The selectors of an expression, without their ranges."""
    rest = re.sub(r"\b(by|on|group_left|group_right)\s*\([^)]*\)|\[[^]]*\]", " ", expression)
    rest = re.sub(r"\b(and|or|unless)\b", ";", rest)
    return set(re.findall(r"(?<![\w:])[A-Za-z_:][\w:]*(?:\{[^}]*\})?(?![\w:{]|\s*\()", rest))


@pytest.mark.parametrize("rule", RULES)
def test_each_selector_of_an_alert_finds_series(cluster: Cluster, rule: dict[str, Any]) -> None:
    """With a misspelt metric or label, or labels that do not match, an alert would never fire."""
    cluster.faulty = True
    # Without the limits, the expression returns the series that it compares with them.
    compared = re.sub(r"\s(==|[<>]=?)\s[\d.e]+", "", rule["expr"])
    assert compared != rule["expr"]
    for asked in (*sorted(selectors(rule["expr"])), compared):
        wait(partial(cluster.server.query, asked), partial("no series: {}".format, asked))
    labels = {label for one in cluster.server.query(compared) for label in one["metric"]}
    texts = [*rule.get("annotations", {}).values(), *rule.get("labels", {}).values()]
    assert {label for text in texts for label in re.findall(r"\$labels\.(\w+)", text)} <= labels


@pytest.mark.skipif(chromium.find() is None, reason="no browser: tests/setup/host.sh installs one")
def test_the_console_pages_draw_all_views_in_a_browser(
    cluster: Cluster, before_and_after: dict[str, tuple[Any, Any]]
) -> None:
    pictures = os.environ.get("HPCAI_PICTURES")
    with chromium.browser() as tab:
        for page in [{"name": "", "views": []}, *monitoring_pages.panels(), {"name": "alerts", "views": []}]:
            name = f"hpcai-{page['name']}".rstrip("-")
            asks = f"?job={JOB}&hours=0.2" if page.get("asks") else "?hours=0.2"
            url = f"{cluster.server.url}/consoles/{name}.html{asks}"

            def complete(url: str = url, empty_is_right: bool = name == "hpcai") -> bool:
                tab.open(url, 1400, 1000)
                tab.wait("[...document.querySelectorAll('[data-kind]')].every(one => one.dataset.state !== 'asks')")
                return empty_is_right or tab.run("document.querySelectorAll('.none').length") == 0

            # On a busy machine, a scrape may miss its second, and its series end until the next one.
            wait(complete, lambda: tab.run("location.href + document.querySelectorAll('.none').length"))
            failed = tab.run("[...document.querySelectorAll('[data-state=failed]')].map(one => one.textContent)")
            assert not failed, (name, failed)
            assert tab.run("document.querySelectorAll('section').length") >= len(page["views"])
            if pictures:
                pathlib.Path(pictures, f"{name}.png").write_bytes(tab.picture())
        assert not [words for words in tab.complaints() if "favicon" not in words]
        assert all(url.startswith((cluster.server.url, "about:", "data:")) for url in tab.requested())


@pytest.mark.skipif(chromium.find() is None, reason="no browser: tests/setup/host.sh installs one")
def test_the_page_of_an_ended_job_shows_its_nodes_and_its_time(cluster: Cluster) -> None:
    """Who asks why a job stopped opens the page after its end."""
    server = cluster.server
    cluster.faulty = True
    # It runs for longer than the step of a graph.
    wait(lambda: server.query(f'count_over_time(hpcai_job_info{{job_id="{SHORT}"}}[1m]) > 20'), limit_s=60)
    (start,) = server.query(f'min(hpcai_job_start_seconds{{job_id="{SHORT}"}})')
    cluster.faulty = False
    wait(lambda: not server.query(f'hpcai_job_info{{job_id="{SHORT}"}}'))
    gone = time.time()
    time.sleep(2)
    with chromium.browser() as tab:
        tab.open(f"{server.url}/consoles/hpcai-job.html?job={SHORT}", 1400, 1000)
        tab.wait("[...document.querySelectorAll('[data-kind]')].every(one => one.dataset.state === 'done')")
        shown = tab.run("shown()")
        assert shown["start"] == pytest.approx(float(start["value"][1]), abs=60)
        assert shown["end"] < gone + 30
        tables = tab.run("[...document.querySelectorAll('main table')].map(one => one.textContent)")
        assert any("compute-0" in one and "bob" in one for one in tables), tables
        assert sum("ago" in one and str(SHORT) in one for one in tables) == 2
        # The utilisation of its GPU while it ran.
        assert tab.run("document.querySelectorAll('[data-labels=node] path').length") == 1
        # Without such a job, the page is about now.
        tab.open(f"{server.url}/consoles/hpcai-job.html?job=999", 1400, 1000)
        tab.wait("[...document.querySelectorAll('[data-kind]')].every(one => one.dataset.state === 'done')")
        assert tab.run("shown().end - shown().start") == pytest.approx(6 * 3600)


def test_text_of_others_stays_text_in_a_page(cluster: Cluster) -> None:
    """The job's number comes from the address, and becomes a part of queries and of the page."""
    text = cluster.server.get("/consoles/hpcai-job.html", job='1"} or up{x="<script>alert(1)</script>')
    assert "alert(1)" not in text
    assert "<h1>One job 11</h1>" in text


def test_gpus_of_an_elastic_machine_have_counters(cluster: Cluster) -> None:
    """hpcai-metrics writes its targets, without a playbook."""
    path = cluster.server.folder / "targets/elastic_dcgm.json"
    labels = {"instance": "spot-0", "node": "spot-0", "set": "spot"}
    path.write_text(json.dumps([{"targets": [f"127.0.0.1:{cluster.gpus}"], "labels": labels}]), encoding="utf-8")
    asked = 'DCGM_FI_DEV_GPU_UTIL{instance="spot-0",set="spot"}'
    wait(partial(cluster.server.query, asked), partial(cluster.server.query, "up"))
    path.unlink()
    wait(lambda: not cluster.server.query(asked))


def test_a_replaced_machine_mixes_no_series(cluster: Cluster) -> None:
    """A new machine has the name of an old one: the old series end at once, and averages are by machine."""
    server, folder = cluster.server, cluster.server.folder
    path = folder / "targets/nodes.json"
    targets = json.loads(path.read_text(encoding="utf-8"))
    targets[1]["labels"]["vm_id"] = "3f6a0c9e-0000-4000-8000-000000000002"
    path.write_text(json.dumps(targets), encoding="utf-8")
    asked = 'hpcai_health_run_seconds{instance="compute-0",tier="periodic"}'

    def machines(query: str) -> list[str]:
        return sorted(one["metric"]["vm_id"][-1] for one in server.query(query))

    wait(lambda: machines(asked) == ["2"], lambda: server.query(asked))
    # Each machine has its own average.
    assert machines(f"avg_over_time({asked}[1h])") == ["1", "2"]
    assert len(server.query("hpcai:job_gpu_util:avg30m")) == len(server.query('hpcai_job_info{gpu=~"0|1|2"}'))


def test_prometheus_scrapes_itself_also_with_logins(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    """Alerts about remote write come from its own metrics. Without them, they could never fire."""
    credentials.ensure(Root("/"), str(tmp_path), "root")
    login = base64.b64encode((tmp_path / credentials.WEB_FILE).read_bytes()).decode()
    variables = {"monitoring_web_users": {"ops": credentials.bcrypt("x")}, "monitoring_interval": 1}
    port = free_port()
    config = render(evaluate, "prometheus.yml.j2", tmp_path, **variables).replace(":9090", f":{port}")
    own = {"__monitoring_own_login": {"content": login}}
    web = render(evaluate, "prometheus-web.yml.j2", tmp_path, **variables, **own)
    with prometheus(tmp_path, config, port, web=web) as server:
        wait(lambda: server.query('up{job="prometheus"} == 1'), lambda: server.query("up"))
        # Pages, queries and metrics need a login, and a wrong password does not count.
        for password in ("", "wrong"):
            stranger = Server(server.url, tmp_path, password)
            for path in ("/consoles/hpcai.html", "/api/v1/query?query=up", "/metrics"):
                with pytest.raises(urllib.error.HTTPError, match="401"):
                    stranger.get(path)


@pytest.mark.parametrize("faulty", [False, True])
def test_names_and_units_of_metrics_are_those_that_prometheus_recommends(tmp_path: pathlib.Path, faulty: bool) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: tests/setup/host.sh installs it")
    Monitored(tmp_path).write(faulty)
    status = {"out": [], "allowed": 1, "refused": [], "replace": [], "actions": [], "alerts": [], "time": 1}
    texts = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.prom")}
    assert len(texts) == 6
    for name, text in {**texts, "arbiter": metrics(status)}.items():
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (name, done.returncode, done.stdout + done.stderr) == (name, 0, "")
