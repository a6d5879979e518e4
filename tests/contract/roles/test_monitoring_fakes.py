# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whoever answers at the port of a machine's exporter, reports only about this machine.

A user of a machine can listen at a free port, and publish any metric. Real Prometheus and Alertmanager.
"""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from stand_ins.http_service import Service
from stand_ins.monitor import REPOSITORY, ROLE, Server, alertmanager, free_port, prometheus, render, wait
from stand_ins.monitored import Monitored

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import status as elastic
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.serve import JOBS_HELP, SLURM_HELP, jobs_text
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.status import METRICS as ARBITER

TEXT = {"Content-Type": "text/plain; version=0.0.4"}
RULES = (ROLE / "files/hpcai.rules.yml", REPOSITORY / "roles/health_checks/files/hpcai-health.rules.yml")
CONTROLLER = {"instance": "ctl", "function": "controller", "__controller": "true"}
FAKES = {
    "compute-0": {"instance": "compute-0", "node": "compute-0", "function": "compute"},
    "login-0": {"instance": "login-0", "function": "login"},
}
LINK = "<https://example.org|log in> [or](https://example.org) at example.org"
# A user wants these alerts, or that nobody sees the real ones.
CLAIMS = """
hpcai_slurm_up{daemon="slurmctld"} 1
hpcai_slurm_up{daemon="slurmctld",x="1"} 0
hpcai_slurm_up{daemon="slurmdbd"} 0
hpcai_slurm_node_out{node="compute-7",instance="ctl",job="other",function="controller",state="down",reason="x"} 1
hpcai_slurm_node_out_since_seconds{node="compute-7"} 1
hpcai_slurm_scheduler{figure="dbd_queue"} 1e9
hpcai_slurm_scheduler{figure="cycle_mean_us"} 1e9
hpcai_goodput_timestamp_seconds 1
hpcai_elastic_closed{set="spot"} 1
hpcai_health_cap_reached 1
hpcai_health_nodes_out 100
hpcai_health_max_out 1
hpcai_health_nodes_held 1
hpcai_health_nodes_to_replace 1
hpcai_health_nodes_without_report 1
hpcai_health_actions_failed 1
hpcai_health_arbiter_timestamp_seconds 1
hpcai:job_gpus_idle:count{job_id="117",user="alice"} 8
hpcai_health_check_failing{check="gpu_count",x="1"} 1
hpcai_health_check_failing{check="gpu_count",x="2"} 1
hpcai_health_check_failing{check="gpu_count",x="3"} 1
hpcai_health_check_failing{check="gpu_count",x="4"} 1
ALERTS{alertname="HpcaiSlurmctldDown",alertstate="firing"} 1
alertmanager_notifications_failed_total{integration="webhook"} 1
prometheus_remote_storage_highest_timestamp_in_seconds 1e9
prometheus_remote_storage_queue_highest_sent_timestamp_seconds{remote_name="x"} 1
"""
# What a node may say about itself.
OWN = """
hpcai_health_check_verdict{check="scratch",tier="periodic",verdict="fail",instance="compute-7",node="compute-7"} 1
hpcai_health_check_verdict{check="https://example.org",tier="periodic",verdict="fail"} 1
hpcai_health_run_timestamp_seconds{tier="periodic",instance="compute-7"} NOW
hpcai_metrics_timestamp_seconds{part="jobs"} NOW
hpcai_metrics_dropped{part="jobs",x="https://example.org"} 1
hpcai_job_train_step_seconds{job_id="117",node="compute-7"} 1
node_filesystem_avail_bytes{mountpoint="/"} 1
node_filesystem_avail_bytes{mountpoint="https://example.org"} 1
node_time_seconds 1
"""


def names(text: str) -> set[str]:
    """The metrics of a page."""
    return set(re.findall(r"^([A-Za-z_:][\w:]*)", text, re.MULTILINE))


def only_controllers() -> re.Pattern[str]:
    """What Prometheus does not take from other machines."""
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    return re.compile("|".join(f"(?:{one})" for one in variables["__monitoring_not_from_nodes"]))


def test_only_controllers_may_publish_what_only_controllers_write(tmp_path: pathlib.Path) -> None:
    machines = Monitored(tmp_path)
    machines.write(True)
    texts = {
        folder: "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.prom"))
        for folder in (machines.controller, machines.node)
    }
    of_nodes = names(texts[machines.node]) | JOBS_HELP.keys()
    of_controllers = names(texts[machines.controller]) | SLURM_HELP.keys() | ARBITER.keys() | elastic.METRICS.keys()
    assert any(name.startswith("hpcai_goodput_") for name in of_controllers)
    refused = only_controllers()
    # A controller also reports about its own service.
    alike = of_nodes & of_controllers
    assert all(name.startswith("hpcai_metrics_") for name in alike)
    assert {name for name in of_controllers if not refused.fullmatch(name)} == alike
    assert not [name for name in of_nodes if refused.fullmatch(name)]
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    computed = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    assert len(computed) == 4
    assert all(refused.fullmatch(name) for name in computed)


def takes(job: dict[str, Any], name: str) -> bool:
    """Whether Prometheus stores a metric of a scrape job."""
    for rule in job.get("metric_relabel_configs", []):
        if rule["source_labels"] == ["__name__"]:
            matches = re.fullmatch(rule["regex"], name) is not None
            if matches != (rule["action"] == "keep"):
                return False
    return True


def test_no_port_but_a_controllers_publishes_metrics_of_slurm(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    """Also at the ports of dcgm-exporter, slurmctld and Alertmanager, users can listen while these do not run."""
    variables = {"monitoring_dcgm_port": 9400, "monitoring_slurm_endpoint": True, "hpcai_controllers": ["10.0.0.4"]}
    config = yaml.safe_load(render(evaluate, "prometheus.yml.j2", tmp_path, **variables))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    # Nobody can listen at the port of the Prometheus that runs.
    assert {name for name, job in jobs.items() if takes(job, "hpcai_slurm_up")} == {"hpcai-controllers", "prometheus"}
    needed = {"hpcai-nodes": "node_load1", "hpcai-dcgm": "DCGM_FI_DEV_GPU_UTIL", "slurmctld-jobs": "slurm_jobs"}
    needed["alertmanager"] = "alertmanager_notifications_failed_total"
    for name, metric in needed.items():
        assert [other for other in needed if takes(jobs[other], metric)] == [name]


class Faked:
    """Prometheus, Alertmanager, a controller, and machines whose pages a user writes."""

    def __init__(self, server: Server, alerts: Server, controller: Service, fakes: dict[str, Service]) -> None:
        self.server, self.alerts, self.controller, self.fakes = server, alerts, controller, fakes

    def fired(self) -> set[tuple[str, str]]:
        """The alerts that fire, each with its machine."""
        found = [one["metric"] for one in self.server.query('ALERTS{alertstate="firing",alertname!=""}')]
        return {(one["alertname"], one.get("instance", "")) for one in found}


@pytest.fixture
def faked(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> Iterator[Faked]:
    """All alerts fire at once."""
    port, alerts_port = free_port(), free_port()
    config = render(evaluate, "prometheus.yml.j2", tmp_path, monitoring_interval=1, monitoring_dcgm_port=1)
    config = config.replace(":9090", f":{port}").replace(":9093", f":{alerts_port}")
    controller = Service((200, TEXT, b'hpcai_slurm_up{daemon="slurmctld"} 1\n'))
    fakes = {name: Service((200, TEXT, b"")) for name in (*FAKES, "dcgm")}
    targets = [(controller, CONTROLLER), *((fakes[name], labels) for name, labels in FAKES.items())]
    (tmp_path / "targets").mkdir()
    for file, listed in (("nodes", targets), ("dcgm", [(fakes["dcgm"], FAKES["compute-0"])])):
        entries = [{"targets": [f"127.0.0.1:{one.port}"], "labels": labels} for one, labels in listed]
        (tmp_path / f"targets/{file}.json").write_text(json.dumps(entries), encoding="utf-8")
    with (
        alertmanager(tmp_path, render(evaluate, "alertmanager.yml.j2", tmp_path), alerts_port) as alerts,
        prometheus(tmp_path, config, port, options=["--web.enable-lifecycle"]) as server,
    ):
        for rules in RULES:
            text = re.sub(r"for: \d+[smhd]", "for: 0s", rules.read_text(encoding="utf-8"))
            (tmp_path / "rules" / rules.name).write_text(text, encoding="utf-8")
        server.get("/-/reload", data={})
        yield Faked(server, alerts, controller, fakes)


def test_a_fake_exporter_raises_no_alert_about_the_cluster_and_hides_none(faked: Faked) -> None:
    own = OWN.replace("NOW", str(int(time.time())))
    for one in faked.fakes.values():
        one.answers[:] = [(200, TEXT, (CLAIMS + own + 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n').lstrip().encode())]
    server = faked.server
    wait(lambda: len(server.query('hpcai_health_check_verdict{check="scratch"}')) == 2, lambda: server.query("up"))
    wait(lambda: server.query("DCGM_FI_DEV_GPU_UTIL"), lambda: server.query("up"))
    wait(lambda: ("HpcaiHealthCheckFails", "compute-0") in faked.fired(), faked.fired)
    asked = "group by (__name__) ({__name__=~'.+',instance!~'ctl|127.*'})"
    taken = {one["metric"]["__name__"] for one in server.query(asked)} - {"hpcai_health_tier_current"}
    refused = names(CLAIMS) - {"hpcai_health_check_failing", "ALERTS"}
    assert not taken & refused
    # Each series has the name of the machine that answered, never that of another one.
    claimed = server.query('{__name__=~"(hpcai|node|DCGM)_.+",job=~"hpcai-.+",instance!="ctl"}')
    assert {(one["metric"]["instance"], one["metric"].get("node")) for one in claimed} == {
        ("compute-0", "compute-0"),
        ("login-0", None),
    }
    assert not server.query('{check=~".*http.*"} or {mountpoint=~"http.*"}')
    assert {one["metric"]["job"] for one in server.query("DCGM_FI_DEV_GPU_UTIL")} == {"hpcai-dcgm"}
    about_itself = {"HpcaiHealthCheckFails", "HpcaiClockSkew", "HpcaiMetricsDropped"}
    # The real controller has no metrics of its own service here.
    expected = {(alert, name) for alert in about_itself for name in FAKES} | {("HpcaiMetricsMissing", "ctl")}
    wait(lambda: faked.fired() == expected, faked.fired)
    # Alerts have no labels that a user invents.
    assert not server.query('ALERTS{x!=""}')

    # Real faults still reach people, and no claim inhibits them.
    reason = LINK.replace('"', "")
    down = f'hpcai_slurm_node_out{{node="compute-7",state="down",reason="{reason}"}} 1\n'
    faked.controller.answers[:] = [(200, TEXT, down.encode())]
    real = {("HpcaiNodeOut", "compute-7"), ("HpcaiMetricsMissing", "")}
    wait(lambda: faked.fired() == expected | real, faked.fired)

    def active() -> dict[tuple[str, str], dict[str, Any]]:
        found = [one for one in json.loads(faked.alerts.get("/api/v2/alerts")) if one["status"]["state"] == "active"]
        return {(one["labels"]["alertname"], one["labels"].get("instance", "")): one for one in found}

    wait(lambda: real <= active().keys(), active)
    out = active()["HpcaiNodeOut", "compute-7"]
    assert "reason" not in out["labels"]
    summary = out["annotations"]["summary"]
    assert "log in" in summary
    assert not re.search(r"[<>|\[\]()@/]|example\.org", summary), summary


def test_a_fake_exporter_cannot_fill_prometheus_unseen(faked: Faked, evaluate: Callable[..., Any]) -> None:
    many = "".join(f'x{{n="{number}"}} 1\n' for number in range(9000))
    faked.fakes["compute-0"].answers[:] = [(200, TEXT, many.encode())]
    wait(lambda: ("HpcaiMetricsTooMany", "compute-0") in faked.fired(), faked.fired)
    server = faked.server
    assert not server.query("x")
    assert server.query('up{instance="compute-0",job="hpcai-nodes"} == 0')
    # Fewer, but new ones in each scrape.
    login = faked.fakes["login-0"]
    for turn in range(1000):
        text = "".join(f'x{{n="{turn}-{number}"}} 1\n' for number in range(6000))
        login.answers[:] = [(200, TEXT, text.encode())]
        if ("HpcaiMetricsTooMany", "login-0") in faked.fired():
            break
        assert turn < 40, server.query("sum_over_time(scrape_series_added[1h])")
        time.sleep(0.7)


def test_a_node_with_all_its_metrics_is_below_the_limit(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    """Prometheus drops a larger scrape completely, and a user has no way to cause that with progress of jobs."""
    kept = progress.Progress()
    for job in range(2 * progress.MOST_JOBS):
        for kind, figures in progress.KINDS.items():
            kept.take(job + 1, json.dumps({"kind": kind, **dict.fromkeys(figures, 1)}).encode(), 1.0)
    text = jobs_text(Root(str(tmp_path)), kept, 1.0, 0.0, 0)
    samples = sum(not line.startswith("#") for line in text.splitlines())
    assert samples > 3800
    # Most of the health checks (guide_operate.rst), and of the node exporter with 24 disks and 16 network devices.
    expected = samples + 800 + 1500
    config = yaml.safe_load(render(evaluate, "prometheus.yml.j2", tmp_path))
    limits = {one["job_name"]: one.get("sample_limit") for one in config["scrape_configs"]}
    (alert,) = re.findall(r'function!="controller"} > (\d+)\n', RULES[0].read_text(encoding="utf-8"))
    assert expected < int(alert) < limits["hpcai-nodes"]
