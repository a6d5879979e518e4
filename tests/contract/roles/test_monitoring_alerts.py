# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Alerts fire when their fault is there and not otherwise, and have a section in the guide."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_ins.http_service import Service
from stand_ins.monitor import REPOSITORY, ROLE, free_port, prometheus, render, wait

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import exposition
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import slurm
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.serve import slurm_text

RULES = ROLE / "files/hpcai.rules.yml"
HEALTH_RULES = REPOSITORY / "roles/health_checks/files/hpcai-health.rules.yml"
GUIDE = REPOSITORY / "docs/docsite/rst/guide_alerts.rst"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: tests/setup/host.sh installs it")
Series = dict[str, str]


def rules() -> list[dict[str, Any]]:
    """All alerts that the role installs."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (RULES, HEALTH_RULES)]
    return [rule for file in files for group in file["groups"] for rule in group["rules"] if "alert" in rule]


def series(name: str, values: str, **labels: str) -> Series:
    """A series for promtool's tests."""
    whose = {"instance": "ctl", "function": "controller", **labels}
    pairs = ",".join(f'{label}="{word}"' for label, word in whose.items())
    return {"series": f"{name}{{{pairs}}}", "values": values}


def out(state: str, since: str = "0") -> list[Series]:
    """A node that is out."""
    labels = {"node": "compute-2", "set": "compute", "state": state, "reason": "x"}
    return [
        series("hpcai_slurm_node_out", "1x200", **labels),
        series("hpcai_slurm_node_out_since_seconds", f"{since}x200", node="compute-2"),
    ]


def held(busy: int, started: str = "0") -> list[Series]:
    """A job with two GPUs that are busy to a percentage."""
    gpus = [{"node": "n1", "gpu": gpu} for gpu in ("0", "1")]
    job = {"job_id": "7", "user": "alice", "partition": "p"}
    return [
        *(series("hpcai_job_info", "1x200", **job, **gpu) for gpu in gpus),
        *(series("DCGM_FI_DEV_GPU_UTIL", f"{busy}x200", job="hpcai-dcgm", **gpu) for gpu in gpus),
        series("hpcai_job_start_seconds", f"{started}x200", job_id="7"),
    ]


def disk(free: int, function: str) -> list[Series]:
    """A file system with a share of free space in percent."""
    labels = {"mountpoint": "/", "function": function}
    return [
        series("node_filesystem_avail_bytes", f"{free}x200", **labels),
        series("node_filesystem_size_bytes", "100x200", **labels),
    ]


def figure(name: str, value: str) -> list[Series]:
    """A figure of the scheduler."""
    return [series("hpcai_slurm_scheduler", f"{value}x200", figure=name)]


def scraped(function: str, samples: int, job: str = "hpcai-nodes") -> Series:
    """How many samples the last scrape of a target had."""
    return series("scrape_samples_post_metric_relabeling", f"{samples}x200", function=function, job=job)


def sent(behind: bool) -> list[Series]:
    """Remote write, in time or not."""
    labels = {"job": "prometheus", "remote_name": "azure", "url": "https://x"}
    return [
        series("prometheus_remote_storage_highest_timestamp_in_seconds", "0+60x200", job="prometheus"),
        series(
            "prometheus_remote_storage_queue_highest_sent_timestamp_seconds",
            "0x200" if behind else "0+60x200",
            **labels,
        ),
    ]


UP = [series("up", "1x200", job="hpcai-nodes")]
MEASURED = [
    series("hpcai_slurm_up", "1x200", daemon="slurmctld"),
    series("hpcai_metrics_timestamp_seconds", "0+60x200", part="jobs"),
]
CASES: dict[str, tuple[list[Series], list[Series]]] = {
    # Never scraped, or lost later; the exporter of another job is not a node.
    "HpcaiNodeDown": (
        [series("up", "0x200", job="hpcai-nodes")],
        [series("up", "1x200", job="hpcai-nodes"), series("up", "0x200", job="hpcai-dcgm")],
    ),
    "HpcaiNodeOut": (out("down"), out("drained")),
    # The time begins at 0.
    "HpcaiNodeOutLong": (out("drained", "-100000"), out("drained", "0")),
    "HpcaiClockSkew": ([series("node_time_seconds", "30+60x200")], [series("node_time_seconds", "2+60x200")]),
    "HpcaiSlurmctldDown": (
        [series("hpcai_slurm_up", "0x200", daemon="slurmctld")],
        [series("hpcai_slurm_up", "1x200", daemon="slurmctld")],
    ),
    "HpcaiSlurmdbdDown": (
        [series("hpcai_slurm_up", "0x200", daemon="slurmdbd")],
        [series("hpcai_slurm_up", "1x200", daemon="slurmdbd")],
    ),
    "HpcaiSlurmdbdQueueGrows": (figure("dbd_queue", "2000"), figure("dbd_queue", "10")),
    "HpcaiSchedulerSlow": (figure("cycle_mean_us", "6000000"), figure("cycle_mean_us", "4000")),
    # The exporter has stopped, and its file stays.
    "HpcaiMetricsOld": (
        [series("hpcai_metrics_timestamp_seconds", "0x200", part="slurm")],
        [series("hpcai_metrics_timestamp_seconds", "0+60x200", part="slurm")],
    ),
    "HpcaiMetricsMissing": ([*UP, *MEASURED[:1]], [*UP, *MEASURED]),
    "HpcaiMetricsDropped": (
        [series("hpcai_metrics_dropped", "3x200", part="slurm")],
        [series("hpcai_metrics_dropped", "0x200", part="slurm")],
    ),
    # A controller has more metrics than other machines. In the first case, each scrape has other series.
    "HpcaiMetricsTooMany": (
        [series("scrape_series_added", "400x200", job="hpcai-nodes", function="login")],
        [scraped("controller", 7000), scraped("compute", 5000), scraped("compute", 7000, job="other")],
    ),
    # 65 and 45 minutes old.
    "HpcaiGoodputOld": (
        [series("hpcai_goodput_timestamp_seconds", "-3900+60x200")],
        [series("hpcai_goodput_timestamp_seconds", "-2700+60x200")],
    ),
    "HpcaiGpusHeldIdle": (held(1), held(80)),
    "HpcaiElasticClosed": (
        [series("hpcai_elastic_closed", "1x200", set="spot")],
        [series("hpcai_elastic_closed", "0x200", set="spot")],
    ),
    # A full disk of a compute node is the business of its health checks.
    "HpcaiMonitorDiskFull": (disk(5, "controller"), [*disk(50, "controller"), *disk(5, "compute")]),
    "HpcaiAlertsNotDelivered": (
        [series("alertmanager_notifications_failed_total", "0+1x200", job="alertmanager", integration="webhook")],
        [series("alertmanager_notifications_failed_total", "3x200", job="alertmanager", integration="webhook")],
    ),
    "HpcaiRemoteWriteFails": (sent(True), sent(False)),
}


def test_each_alert_has_a_case_and_a_section_in_the_guide() -> None:
    mine = set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))
    assert mine == set(CASES)
    guide = GUIDE.read_text(encoding="utf-8")
    sections = re.findall(r"^(Hpcai\w+)\n-+$", guide, re.MULTILINE)
    assert sorted(sections) == sorted(rule["alert"] for rule in rules())
    page = (ROLE / "files/consoles/hpcai-alerts.html").read_text(encoding="utf-8")
    for rule in rules():
        link = f"{{{{ $externalURL }}}}/consoles/hpcai-alerts.html#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == link
        assert f'id="{rule["alert"].lower()}"' in page
        assert rule["labels"]["severity"] in ("warning", "critical")


def alert_test(alert: str, given: list[Series], fires: bool, when: str = "3h") -> dict[str, Any]:
    """A test for promtool: whether an alert fires with these series."""
    expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0'
    samples = [{"labels": "{}", "value": 1}] if fires else []
    expected = {"expr": expression, "eval_time": when, "exp_samples": samples}
    return {"interval": "1m", "input_series": given, "promql_expr_test": [expected]}


@needs_promtool
def test_each_alert_fires_only_with_its_fault(tmp_path: pathlib.Path) -> None:
    """In one run of promtool, which names the alert of each failed test."""
    tests = []
    for alert, (fires, does_not_fire) in CASES.items():
        tests += [alert_test(alert, fires, True), alert_test(alert, does_not_fire, False)]
    # A job that has just started loads its data. The time of its start is Slurm's, not an exporter's.
    tests.append(alert_test("HpcaiGpusHeldIdle", held(1, "10000"), False))
    tests.append(alert_test("HpcaiMetricsMissing", [*UP, *MEASURED[1:]], True))
    tests += [
        alert_test("HpcaiMetricsTooMany", [scraped(*one)], True) for one in (("login", 7000), ("controller", 95000))
    ]
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}), encoding="utf-8")
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


ABOUT_ONE_MACHINE = {"HpcaiNodeDown", "HpcaiClockSkew", "HpcaiMetricsTooMany"}
ABOUT_ONE_MACHINE |= {"HpcaiMetricsOld", "HpcaiMetricsMissing", "HpcaiMetricsDropped", "HpcaiMonitorDiskFull"}


def on_a_node(name: str) -> str:
    """The same series from the exporter of a compute node."""
    rest = re.sub(r',job="[^"]*"', "", name).replace('function="controller"', 'function="compute"')
    return rest.replace("}", ',job="hpcai-nodes"}')


@needs_promtool
def test_only_controllers_raise_alerts_about_the_cluster(tmp_path: pathlib.Path) -> None:
    """Also if a metric of another machine reaches Prometheus in a way that its configuration does not foresee."""
    tests = []
    for alert in CASES.keys() - ABOUT_ONE_MACHINE:
        fires = [{**one, "series": on_a_node(one["series"])} for one in CASES[alert][0]]
        tests.append(alert_test(alert, fires, False))
    up = series("hpcai_slurm_up", "1x200", daemon="slurmctld", function="compute")
    tests.append(alert_test("HpcaiMetricsMissing", [*UP, up, *MEASURED[1:]], True))
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}), encoding="utf-8")
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize(
    "variables",
    [
        {"monitoring_azure": {"url": "https://x.westus-1.metrics.ingest.monitor.azure.com/dcr/api/v1/write"}},
        {
            "monitoring_remote_write": [
                {"url": "https://mimir/api/v1/push", "basic_auth": {"username": "u", "password": "p"}}
            ]
        },
        {"monitoring_slurm_endpoint": True, "monitoring_dcgm_port": 9400, "hpcai_controllers": ["10.0.0.4"]},
        {"monitoring_web_tls": {"cert": "/c", "key": "/k"}},
        {"monitoring_web_users": {"ops": "$2b$10$x"}},
    ],
    ids=["azure", "remote write", "slurm and dcgm", "tls", "login"],
)
def test_prometheus_accepts_each_configuration(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any], variables: dict[str, Any]
) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(render(evaluate, "prometheus.yml.j2", tmp_path, **variables), encoding="utf-8")
    (tmp_path / "alertmanager.password").write_text("none", encoding="ascii")
    # The promtool of Ubuntu 22.04 has no --syntax-only, and looks for the files too.
    for options in (["--syntax-only"], []):
        words = [str(PROMTOOL), "check", "config", *options, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_scrape_of_a_controller_has_room_for_the_jobs_that_users_can_have(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    """Prometheus drops a larger scrape completely, and with it the alerts about Slurm."""
    many = exposition.MOST_SAMPLES + 1
    node = "NodeName=compute-{} Gres=gpu:8 State=DOWN Partitions=compute Reason=x [root@2026-11-20T10:00:00]\n"
    job = "{}|alice|RUNNING|compute|2026-11-20T10:00:00|2026-11-20T10:00:00|None|compute-1\n"
    answers = slurm.Answers("".join(map(node.format, range(many))), "".join(map(job.format, range(many))), "", {}, True)
    text = slurm_text(Root(str(tmp_path)), answers, 0.0, 0.0)
    samples = sum(not line.startswith("#") for line in text.splitlines())
    config = yaml.safe_load(render(evaluate, "prometheus.yml.j2", tmp_path))
    limits = {one["job_name"]: one.get("sample_limit", 0) for one in config["scrape_configs"]}
    assert samples > 4 * exposition.MOST_SAMPLES
    # The exporter's own metrics and those of the other text files.
    assert samples + 10_000 < limits["hpcai-controllers"]


def test_slurmctlds_own_endpoint_is_scraped_every_two_minutes(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    """From Slurm 25.11 on, slurmctld answers at its port, one page for each subject."""
    page = b'slurm_up 1\nhpcai_slurm_up{daemon="slurmctld"} 0\n'
    slurmctld = Service((200, {"Content-Type": "text/plain; version=0.0.4"}, page))
    port = free_port()
    variables = {"monitoring_slurm_endpoint": True, "hpcai_controllers": ["10.0.0.4", "10.0.0.5"]}
    config = render(evaluate, "prometheus.yml.j2", tmp_path, monitoring_interval=1, **variables)
    jobs = {one["job_name"]: one for one in yaml.safe_load(config)["scrape_configs"]}
    subjects = ("jobs", "nodes", "partitions", "scheduler")
    for subject in subjects:
        job = jobs[f"slurmctld-{subject}"]
        assert (job["scrape_interval"], job["static_configs"]) == ("120s", [{"targets": ["10.0.0.4:6817"]}])
    config = config.replace("10.0.0.4:6817", f"127.0.0.1:{slurmctld.port}").replace("120s", "1s")
    (tmp_path / "alertmanager.password").write_text("none", encoding="ascii")
    with prometheus(tmp_path, config.replace(":9090", f":{port}"), port) as server:
        wait(lambda: len(server.query("slurm_up == 1")) == len(subjects), lambda: server.query("up"))
        # Users can listen at this port too while slurmctld does not run.
        assert not server.query("hpcai_slurm_up")
    assert {path for path, _headers in slurmctld.requests} == {f"/metrics/{subject}" for subject in subjects}


def test_remote_write_uses_a_fresh_token_for_each_request(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    """Prometheus reads the file again, so hpcnode can replace the token while it runs."""
    service = Service((204, {}, b""))
    token = tmp_path / "token"
    token.write_text("first", encoding="ascii")
    port = free_port()
    config = render(
        evaluate,
        "prometheus.yml.j2",
        tmp_path,
        monitoring_interval=1,
        monitoring_azure={"url": f"{service.endpoint}/write"},
    )
    config = config.replace(":9090", f":{port}").replace("/run/hpcai/monitoring.token", str(token))
    (tmp_path / "alertmanager.password").write_text("none", encoding="ascii")
    with prometheus(tmp_path, config, port):

        def used() -> list[str]:
            return [headers.get("authorization", "") for path, headers in service.requests if path == "/write"]

        wait(lambda: "Bearer first" in used(), used)
        token.write_text("second", encoding="ascii")
        wait(lambda: "Bearer second" in used(), used)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_of_the_monitor_loses_only_what_did_not_fit(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    """Prometheus answers while its disk is full, and stores again when there is room."""
    data = tmp_path / "small"
    data.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(data)], check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        port = free_port()
        config = render(evaluate, "prometheus.yml.j2", tmp_path, monitoring_interval=1).replace(":9090", f":{port}")
        (tmp_path / "alertmanager.password").write_text("none", encoding="ascii")
        with prometheus(tmp_path, config, port, data / "db") as server:
            asked = "time() - timestamp(up{job='prometheus'})"

            def age() -> float:
                found = server.query(asked)
                return float(found[0]["value"][1]) if found else 1e9

            wait(lambda: age() < 3)
            with (data / "filler").open("wb") as filler:
                try:
                    while True:
                        filler.write(b"x" * (1 << 16))
                        filler.flush()
                except OSError:
                    pass
            wait(lambda: age() > 8, age, 60)
            assert server.get("/-/healthy")
            (data / "filler").unlink()
            wait(lambda: age() < 3, age, 60)
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)
