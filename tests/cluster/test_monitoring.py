# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role monitoring on a cluster: real Prometheus, Alertmanager and node exporters of Debian, and a webhook."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import Cluster, Recap
from simulated.node import Node, wait_for
from simulated.own_cluster import own_cluster
from simulator.suite import OLDEST, suite

NAME, PORT, NETWORK = "monitoring", 8500, "10.66.0.0/24"
CONTROLLER, VICTIM = "10.66.0.4", "0"
RECEIVED = "/tmp/received"
RECEIVER = f"""\
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open("{RECEIVED}" + self.path.rstrip("/").replace("/", "-"), "ab").write(body.replace(b"\\n", b" ") + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9999), Handler).serve_forever()
"""
VARIABLES: dict[str, Any] = {
    "hpcai_monitoring": True,
    "monitoring_interval": 10,
    "monitoring_webhook": "http://127.0.0.1:9999/",
    # Only the Alertmanager of Debian 13 knows Teams' workflows.
    **({} if suite() == OLDEST else {"monitoring_teams": "http://127.0.0.1:9999/teams"}),
    "slurm_accounting": True,
    "slurm_conf": {"SlurmdTimeout": 20},
}
PASSWORD = "/etc/hpcai/monitoring/alertmanager.password"
NOTICED_S, MENDED_S = 300, 480
"""Until the webhook has a firing alert, and a resolved one, in seconds; Alertmanager groups messages for 5 minutes."""
CPU_S = 120
TAKE = """\
import socket, sys, time
until = time.monotonic() + 25
while time.monotonic() < until:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((sys.argv[1], 9100))
            one.listen()
            print("taken")
        except OSError:
            pass
    time.sleep(0.0005)
print("ended")
"""
PROMETHEUS = "/etc/hpcai/monitoring/prometheus.yml"
HEALTH_CPU = """\
import resource, subprocess
for words in (["/usr/libexec/hpcai/health"], ["hpcnode", "health", "report"]):
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""

cluster, inventory = own_cluster(NAME, PORT, NETWORK)


@pytest.fixture(scope="module")
def site(cluster: Cluster, inventory: Path) -> Recap:
    """A run of site.yml with monitoring."""
    run = cluster.site(inventory, "-e", json.dumps(VARIABLES))
    assert run.rc == 0, run.output
    root(cluster, f"printf %s {shlex.quote(RECEIVER)} > /tmp/receiver.py; : > {RECEIVED}")
    root(cluster, "systemd-run --unit=receiver python3 /tmp/receiver.py")
    return run


def root(cluster: Cluster, command: str, check: bool = True) -> str:
    """Run a command on the controller as root."""
    return cluster.ssh(CONTROLLER, f"sudo sh -c {shlex.quote(command)}", check=check)


def get(cluster: Cluster, path: str) -> str:
    """Get a page of Prometheus on the controller."""
    fetch = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:9090{path}').read().decode())"
    return cluster.ssh(CONTROLLER, f"python3 -c {shlex.quote(fetch)}")


def query(cluster: Cluster, expression: str) -> list[dict[str, Any]]:
    """Ask Prometheus on the controller."""
    answer = json.loads(get(cluster, f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


def alerts(cluster: Cluster, name: str, status: str) -> list[dict[str, Any]]:
    """The alerts of a name that the webhook got with a status."""
    messages = [json.loads(line) for line in root(cluster, f"cat {RECEIVED}").splitlines()]
    found = [alert for message in messages for alert in message["alerts"]]
    return [alert for alert in found if (alert["labels"]["alertname"], alert["status"]) == (name, status)]


def teams(cluster: Cluster) -> str:
    """The messages that Teams would have got, one a line."""
    return root(cluster, f"cat {RECEIVED}-teams", check=False)


def test_a_second_run_changes_nothing(cluster: Cluster, inventory: Path, site: Recap) -> None:
    again = cluster.site(inventory, "-e", json.dumps(VARIABLES))
    assert (again.rc, again.changed) == (0, 0), again.output
    assert "consoles/hpcai.html" in again.output


def test_the_servers_run_on_the_controller_and_exporters_everywhere(cluster: Cluster, site: Recap) -> None:
    controller, node = cluster.host(CONTROLLER), cluster.host(Node.of(cluster, CONTROLLER, "0").address)
    for host, unit in (
        *((controller, f"hpcai-{name}") for name in ("prometheus", "alertmanager", "metrics", "node-exporter")),
        *((node, f"hpcai-{name}") for name in ("metrics", "node-exporter")),
    ):
        assert host.service(unit).is_running, unit
        assert host.service(unit).is_enabled, unit
    assert not node.service("hpcai-prometheus").exists


def test_each_node_is_up_under_its_slurm_name(cluster: Cluster, site: Recap) -> None:
    def up() -> dict[str, str]:
        return {one["metric"]["instance"]: one["value"][1] for one in query(cluster, 'up{job="hpcai-nodes"}')}

    wait_for(lambda: up() == {"compute-0": "1", "compute-3": "1", "ctl": "1"}, 90, up)
    labels = [one["metric"] for one in query(cluster, 'up{node=~".+"}')]
    assert all(len(one["vm_id"]) == 36 and one["set"] == "compute" for one in labels)


def test_slurm_health_and_goodput_have_metrics(cluster: Cluster, site: Recap) -> None:
    root(cluster, "systemctl start hpcai-goodput.service")
    asked = {
        'hpcai_slurm_up{daemon="slurmctld"} == 1': "slurmctld",
        'hpcai_slurm_up{daemon="slurmdbd"} == 1': "slurmdbd",
        'hpcai_slurm_nodes{set="compute",state="idle"} == 2': "nodes",
        'hpcai_slurm_scheduler{figure="cycle_mean_us"}': "sdiag",
        'hpcai_health_run_timestamp_seconds{instance="compute-0"}': "health",
        "hpcai_goodput_node_seconds": "goodput",
        'node_time_seconds{instance="compute-3"}': "node exporter",
        'up{job="alertmanager"} == 1': "Alertmanager",
    }
    wait_for(
        lambda: all(query(cluster, expression) for expression in asked),
        400,  # The periodic checks run every five minutes.
        lambda: [what for expression, what in asked.items() if not query(cluster, expression)],
    )


def test_pages_and_links_are_served(cluster: Cluster, site: Recap) -> None:
    assert "Drained and down nodes" in get(cluster, "/consoles/hpcai-nodes.html")
    assert 'id="hpcainodeout"' in get(cluster, "/consoles/hpcai-alerts.html")
    home = get(cluster, "/consoles/hpcai.html")
    assert "Firing alerts" in home
    # Prometheus' own pages have other addresses in Debian 12 than in Debian 13.
    links = set(re.findall(r'<a href="([^"#]+)', home))
    assert len(links) >= 10
    for link in links:
        assert get(cluster, f"/consoles/{link}"), link


def test_nothing_listens_on_all_addresses(cluster: Cluster, site: Recap) -> None:
    ports = ("9090", "9093", "9094", "9100")
    for node in (None, Node.of(cluster, CONTROLLER, VICTIM)):
        shown = node.sh("ss -Hltn") if node else root(cluster, "ss -Hltn")
        listening = [line.split()[3] for line in shown.splitlines()]
        mine = [where for where in listening if where.rpartition(":")[2] in ports]
        assert mine
        assert all(where.startswith(("127.0.0.1:", "10.66.0.")) for where in mine), mine


def test_users_cannot_silence_alerts(cluster: Cluster, site: Recap) -> None:
    ask = "import urllib.request as r; r.urlopen('http://127.0.0.1:9093/api/v2/alerts')"
    answer = cluster.ssh(CONTROLLER, f"python3 -c {shlex.quote(ask)} 2>&1 | tail -1", check=False)
    assert "401" in answer
    assert "Permission denied" in cluster.ssh(CONTROLLER, f"cat {PASSWORD} 2>&1", check=False)


def test_a_jobs_progress_is_shown_only_for_its_own_job(cluster: Cluster, site: Recap) -> None:
    script = "hpcnode metrics progress --step 7 --steps 9 --step-seconds 1.5; sleep 150"
    cluster.ssh(CONTROLLER, f"sbatch --nodelist=compute-3 --output=/dev/null --wrap={shlex.quote(script)}")
    step = "hpcai_job_train_step"
    wait_for(lambda: bool(query(cluster, f"{step} == 7")), 120, lambda: query(cluster, step))
    (found,) = query(cluster, step)
    assert found["metric"]["instance"] == "compute-3"
    number = found["metric"]["job_id"]
    job = f'hpcai_job_info{{job_id="{number}",node="compute-3",gpu=""}}'
    wait_for(lambda: bool(query(cluster, job)), 90, lambda: query(cluster, "hpcai_job_info"))
    # A process outside of jobs belongs to none.
    node = Node.of(cluster, CONTROLLER, VICTIM)
    assert "not accepted" in node.sh("hpcnode metrics progress --step 1", check=False)


# Keeps as many silent connections as it gets, and tries again all the time.
_SILENT = """
import contextlib, socket
held = []
while True:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.settimeout(1)
    with contextlib.suppress(OSError):
        one.connect("/run/hpcai/progress.sock")
    held = [*held[-400:], one]
"""
# Reports as a training does, and prints how many reports were accepted, and the second longest time of one: the service
# writes its file once in this time, and a disk may be slow.
_REPORTS = """
import socket, struct, time
accepted, times = 0, []
for step in range(10):
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        for limit in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            one.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", 1, 0))
        one.connect("/run/hpcai/progress.sock")
        one.send(b'{"kind": "train", "step": %d}' % step)
        accepted += one.recv(8) == b"ok"
    times.append(time.monotonic() - began)
    time.sleep(0.2)
print(accepted, sorted(times)[-2])
"""


def test_a_flood_of_connections_delays_no_report_of_another_user(cluster: Cluster, site: Recap) -> None:
    """A user let each report of the other trainings on the node wait for up to a second, or get lost."""
    node, unit = Node.of(cluster, CONTROLLER, "3"), "attack-progress"
    node.write("/run/attack-silent.py", _SILENT.encode(), "0755")
    node.write("/run/attack-reports.py", _REPORTS.encode(), "0755")
    node.sh(f"systemd-run --quiet --collect --uid=nobody --unit={unit} python3 /run/attack-silent.py")
    try:
        answer = cluster.ssh(CONTROLLER, "srun --time=3 --nodelist=compute-3 --mpi=none python3 /run/attack-reports.py")
        assert node.sh(f"systemctl is-active {unit}", check=False).strip() == "active"
    finally:
        node.sh(f"systemctl stop {unit}; rm -f /run/attack-*.py", check=False)
    accepted, seconds = answer.split()
    assert int(accepted) == 10
    assert float(seconds) < 0.2


@pytest.fixture
def usual_interval(cluster: Cluster, site: Recap) -> Iterator[Node]:
    """A node, while metrics are collected every 30 s, as by default."""
    node = Node.of(cluster, CONTROLLER, "3")

    def collect_every(before: int, now: int) -> None:
        root(cluster, f"sed -i 's/scrape_interval: {before}s/scrape_interval: {now}s/' {PROMETHEUS}")
        root(cluster, "systemctl reload hpcai-prometheus")
        node.sh(f"sed -i -E 's/(\"interval_s\": *){before}\\b/\\1{now}/' /etc/hpcai/metrics.json")
        assert f'"interval_s": {now}' in node.sh("cat /etc/hpcai/metrics.json")
        node.sh("systemctl restart hpcai-metrics")

    collect_every(10, 30)
    yield node
    collect_every(30, 10)


def test_all_collection_on_a_node_takes_little_cpu_time(usual_interval: Node) -> None:
    node = usual_interval

    def used() -> float:
        """From /proc, because systemd does not count CPU time without its control groups."""
        ticks = 0
        for unit in ("hpcai-metrics", "hpcai-node-exporter"):
            shown = node.sh(f"cat /proc/$(systemctl show --property=MainPID --value {unit})/stat")
            # utime, stime, and those of children that have ended.
            ticks += sum(map(int, shown.rpartition(")")[2].split()[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    # The start of the service is no collection.
    time.sleep(10)
    before = used()
    time.sleep(CPU_S)
    metrics = (used() - before) / CPU_S
    # Every five minutes, the health program writes most of the series, and the report sends its results.
    health = float(node.sh(f"python3 -c {shlex.quote(HEALTH_CPU)}")) / 300
    print(f"collection on a node: metrics {metrics:.3%}, health {health:.3%} of one CPU")
    assert metrics + health < 0.005


def test_a_user_cannot_take_the_exporters_port_while_it_restarts(cluster: Cluster, site: Recap) -> None:
    """The user could publish the metrics of the node, and in former releases those of the whole cluster."""
    node = Node.of(cluster, CONTROLLER, VICTIM)
    user = f"setpriv --reuid=nobody --regid=nogroup --clear-groups python3 -c {shlex.quote(TAKE)} {node.address}"
    restarts = "systemctl restart hpcai-node-exporter; sleep 3; systemctl kill -s KILL hpcai-node-exporter"
    assert node.sh(f"{user} & sleep 1; {restarts}; wait").split() == ["ended"]
    # RestartSec is 10 s.
    asked = f'up{{job="hpcai-nodes",instance="{node.name}"}} == 1'
    wait_for(lambda: bool(query(cluster, asked)), 60, lambda: query(cluster, "up"))
    assert node.sh("systemctl show --property=NFileDescriptorStore --value hpcai-node-exporter").strip() == "1"


def test_a_killed_slurmd_calls_the_webhook_and_is_resolved(cluster: Cluster, site: Recap) -> None:
    node = Node.of(cluster, CONTROLLER, VICTIM)
    began = time.time()
    node.sh("systemctl stop slurmd")
    try:
        wait_for(
            lambda: bool(alerts(cluster, "HpcaiNodeOut", "firing")),
            NOTICED_S,
            lambda: (query(cluster, "ALERTS"), root(cluster, f"cat {RECEIVED}")),
        )
        print(f"webhook called {time.time() - began:.0f} s after slurmd was stopped")
        (first, *_more) = alerts(cluster, "HpcaiNodeOut", "firing")
        assert first["labels"]["instance"] == "compute-0"
        link = urllib.parse.urlsplit(first["annotations"]["runbook_url"])
        assert f'id="{link.fragment}"' in get(cluster, link.path)
        (since,) = query(cluster, 'hpcai_slurm_node_out_since_seconds{node="compute-0"}')
        root(cluster, "systemctl restart hpcai-metrics hpcai-node-exporter")
        time.sleep(20)
        (after,) = query(cluster, 'hpcai_slurm_node_out_since_seconds{node="compute-0"}')
        assert after["value"][1] == since["value"][1]
        if "monitoring_teams" in VARIABLES:
            # The same message as a card.
            wait_for(lambda: "HpcaiNodeOut" in teams(cluster), NOTICED_S, lambda: teams(cluster))
            (card, *_more) = [json.loads(line) for line in teams(cluster).splitlines()]
            assert card["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive"
    finally:
        node.sh("systemctl start slurmd")
    mended = time.time()
    wait_for(
        lambda: bool(alerts(cluster, "HpcaiNodeOut", "resolved")),
        MENDED_S,
        lambda: (query(cluster, "ALERTS"), cluster.nodes(CONTROLLER)),
    )
    print(f"webhook called {time.time() - mended:.0f} s after slurmd was started")


def test_a_machine_of_its_own_is_the_monitor_and_the_controller_none_any_more(
    cluster: Cluster, inventory: Path, site: Recap, tmp_path: Path
) -> None:
    """compute-3 takes over: another machine would need another cluster."""
    group = tmp_path / "monitor.yml"
    group.write_text("hpcai_monitor: {hosts: {compute000003: }}\n", encoding="utf-8")
    words = ("-i", str(group), "-e", json.dumps(VARIABLES))
    run = cluster.site(inventory, *words)
    assert run.rc == 0, run.output
    again = cluster.site(inventory, *words)
    assert (again.rc, again.changed) == (0, 0), again.output
    monitor = Node.of(cluster, CONTROLLER, "3")
    asked = urllib.parse.urlencode({"query": 'up{job="hpcai-nodes"}'})
    fetch = (
        f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:9090/api/v1/query?{asked}').read().decode())"
    )

    def up() -> dict[str, str]:
        answer = json.loads(monitor.sh(f"python3 -c {shlex.quote(fetch)}", check=False) or "{}")
        return {one["metric"]["instance"]: one["value"][1] for one in answer.get("data", {}).get("result", [])}

    wait_for(lambda: up() == {"compute-0": "1", "compute-3": "1", "ctl": "1"}, 120, up)
    assert (
        root(cluster, "systemctl is-active hpcai-prometheus hpcai-alertmanager", check=False).split()
        == ["inactive"] * 2
    )
    assert root(cluster, "systemctl is-active hpcai-metrics hpcai-node-exporter").split() == ["active"] * 2
    assert root(cluster, "ls /etc/systemd/system | grep -E 'hpcai-(prom|alertm)'", check=False) == ""
    # Back again, as at the beginning.
    assert cluster.site(inventory, "-e", json.dumps(VARIABLES)).rc == 0
    assert monitor.sh("systemctl is-active hpcai-prometheus", check=False).strip() != "active"


def test_uninstalling_removes_it(cluster: Cluster, inventory: Path, site: Recap) -> None:
    run = cluster.site(inventory, "-e", json.dumps({**VARIABLES, "monitoring_state": "absent"}), "--tags", "monitoring")
    assert run.rc == 0, run.output
    assert root(cluster, "ls /etc/systemd/system | grep -E 'hpcai-(metrics|prom|alertm|node-exp)'", check=False) == ""
    assert root(cluster, "ls -d /etc/hpcai/monitoring /etc/hpcai/metrics.json 2>/dev/null", check=False) == ""
