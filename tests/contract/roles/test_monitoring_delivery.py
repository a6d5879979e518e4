# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Alerts reach people once, by each way that the role configures. The real Alertmanager on loopback."""

from __future__ import annotations

import base64
import contextlib
import datetime
import email
import email.policy
import json
import pathlib
import re
import shutil
import subprocess
import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from stand_ins.http_service import Service
from stand_ins.monitor import Server, alertmanager, free_port, render, wait
from stand_ins.smtp import Mailbox


@pytest.fixture
def receiver() -> Iterator[Service]:
    """A webhook."""
    service = Service((200, {}, b""))
    yield service
    service.server.shutdown()
    service.server.server_close()


@pytest.fixture
def alerts(tmp_path: pathlib.Path, evaluate: Callable[..., Any], receiver: Service) -> Iterator[Server]:
    """The real Alertmanager with the role's configuration, but without its waits."""
    with started(tmp_path, evaluate, monitoring_webhook=f"{receiver.endpoint}/hook") as server:
        yield server


@contextlib.contextmanager
def started(folder: pathlib.Path, evaluate: Callable[..., Any], **variables: Any) -> Iterator[Server]:
    """The real Alertmanager with the role's configuration for these variables, but without its waits."""
    config = render(evaluate, "alertmanager.yml.j2", folder, **variables)
    for old, new in (("group_wait: 30s", "group_wait: 100ms"), ("group_interval: 5m", "group_interval: 1s")):
        assert old in config
        config = config.replace(old, new)
    with alertmanager(folder, config, free_port()) as server:
        yield server


def post(server: Server, *names: str, ended: bool = False, **labels: str) -> None:
    """Tell Alertmanager of alerts, as Prometheus does."""
    now = datetime.datetime.now(datetime.UTC)
    end = now - datetime.timedelta(seconds=1) if ended else now + datetime.timedelta(minutes=5)
    times = {"startsAt": (now - datetime.timedelta(minutes=1)).isoformat(), "endsAt": end.isoformat()}
    link = "http://127.0.0.1:9090/consoles/hpcai-alerts.html#"
    found = [
        {
            "labels": {"alertname": name, **labels},
            "annotations": {"summary": f"{labels.get('instance')} is out", "runbook_url": f"{link}{name.lower()}"},
            **times,
        }
        for name in names
    ]
    server.get("/api/v2/alerts", data=found)


def received(receiver: Service) -> list[tuple[str, str]]:
    """Name and status of the alerts that the webhook got."""
    messages = [json.loads(body) for body in receiver.posted]
    return [(alert["labels"]["alertname"], alert["status"]) for message in messages for alert in message["alerts"]]


def test_the_webhook_is_called_when_an_alert_fires_and_when_it_is_resolved(alerts: Server, receiver: Service) -> None:
    post(alerts, "HpcaiNodeOut", instance="compute-0")
    wait(lambda: ("HpcaiNodeOut", "firing") in received(receiver))
    post(alerts, "HpcaiNodeOut", instance="compute-0", ended=True)
    wait(lambda: ("HpcaiNodeOut", "resolved") in received(receiver))


def test_slack_gets_the_alert_with_its_link_when_it_fires_and_when_it_is_resolved(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any], receiver: Service
) -> None:
    def messages() -> list[tuple[str, str]]:
        shown = [one for body in receiver.posted for one in json.loads(body)["attachments"]]
        return [(one["title"], one["text"]) for one in shown]

    expected = "compute-0 is out http://127.0.0.1:9090/consoles/hpcai-alerts.html#hpcainodeout\n"
    with started(tmp_path, evaluate, monitoring_slack=f"{receiver.endpoint}/services/T0/B0/x") as server:
        post(server, "HpcaiNodeOut", instance="compute-0")
        wait(lambda: ("FIRING: HpcaiNodeOut", expected) in messages(), messages)
        post(server, "HpcaiNodeOut", instance="compute-0", ended=True)
        wait(lambda: ("RESOLVED: HpcaiNodeOut", expected) in messages(), messages)
    assert {path for path, _headers in receiver.requests} == {"/services/T0/B0/x"}


def test_slack_does_not_read_the_text_of_an_alert_as_markup(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any], receiver: Service
) -> None:
    with started(tmp_path, evaluate, monitoring_slack=f"{receiver.endpoint}/services/T0/B0/x") as server:
        post(server, "HpcaiNodeOut", instance="<https://example.org|log in> & more")
        wait(lambda: receiver.posted)
    (shown,) = json.loads(receiver.posted[0])["attachments"]
    assert shown["text"].startswith("&lt;https://example.org|log in&gt; &amp; more is out http://127.0.0.1:9090/")


def test_a_mail_server_gets_the_alert_from_the_sender_with_the_login(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    with Mailbox() as mailbox:
        mail: dict[str, Any] = {
            "to": "ops@example.org",
            "from": "hpc@example.org",
            "smarthost": f"127.0.0.1:{mailbox.port}",
        }
        mail |= {"tls": False, "username": "hpc", "password": "p'\""}

        def subjects() -> list[str]:
            parsed = [email.message_from_string(one.text, policy=email.policy.default) for one in mailbox.received]
            return [str(one["Subject"]) for one in parsed]

        with started(tmp_path, evaluate, monitoring_email=mail) as server:
            post(server, "HpcaiNodeOut", instance="compute-0")
            wait(lambda: any("[FIRING:1] HpcaiNodeOut" in one for one in subjects()), subjects)
            post(server, "HpcaiNodeOut", instance="compute-0", ended=True)
            wait(lambda: any("[RESOLVED] HpcaiNodeOut" in one for one in subjects()), subjects)
    (first, *_more) = mailbox.received
    assert (first.sender, first.recipients) == ("hpc@example.org", ["ops@example.org"])
    assert base64.b64decode(first.login).split(b"\0") == [b"", b"hpc", b"p'\""]
    assert "hpcai-alerts.html#hpcainodeout" in first.text.replace("=\n", "").replace("=23", "#")


def test_a_mail_server_without_tls_gets_nothing_unless_that_is_allowed(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    """Alerts and the login would cross the network in clear text."""
    with Mailbox() as mailbox:
        mail = {"to": "ops@example.org", "from": "hpc@example.org", "smarthost": f"127.0.0.1:{mailbox.port}"}
        with started(tmp_path, evaluate, monitoring_email=mail) as server:
            post(server, "HpcaiNodeOut", instance="compute-0")
            wait(lambda: "STARTTLS" in (tmp_path / "alertmanager.log").read_text(encoding="utf-8"))
    assert not mailbox.received


Alert = tuple[str, dict[str, str]]


def on(instance: str, *names: str, **labels: str) -> list[Alert]:
    """Alerts about one machine."""
    return [(name, {"instance": instance, **labels}) for name in names]


# The cause, what follows from it, and what does not.
INHIBITED: dict[str, tuple[list[Alert], list[Alert], list[Alert]]] = {
    "a machine is down": (
        on("compute-0", "HpcaiNodeDown"),
        on("compute-0", "HpcaiNodeOut", "HpcaiHealthNotRun", "HpcaiMetricsOld", "HpcaiClockSkew"),
        on("compute-1", "HpcaiHealthNotRun"),
    ),
    "a machine has too many metrics": (
        on("compute-0", "HpcaiMetricsTooMany", job="hpcai-nodes"),
        on("compute-0", "HpcaiNodeDown", job="hpcai-nodes") + on("compute-0", "HpcaiHealthNotRun"),
        on("compute-1", "HpcaiNodeDown", job="hpcai-nodes"),
    ),
    "a node is down in Slurm": (
        on("compute-0", "HpcaiNodeOut"),
        on("compute-0", "HpcaiHealthCheckFails", "HpcaiHealthNotRun", "HpcaiClockSkew", "HpcaiNodeOutLong"),
        on("compute-0", "HpcaiMetricsDropped") + on("compute-1", "HpcaiHealthCheckFails"),
    ),
    "a clock is wrong": (
        on("ctl", "HpcaiClockSkew"),
        on("ctl", "HpcaiHealthNotRun", "HpcaiMetricsOld", "HpcaiGoodputOld"),
        on("ctl", "HpcaiSchedulerSlow") + on("compute-1", "HpcaiMetricsOld"),
    ),
    "a check fails on many nodes": (
        [("HpcaiHealthCheckFailsOnMany", {"check": "gpu_count"})],
        on("compute-0", "HpcaiHealthCheckFails", check="gpu_count"),
        on("compute-0", "HpcaiHealthCheckFails", check="scratch"),
    ),
    "several checks fail on a node": (
        on("compute-0", "HpcaiHealthSeveralChecksFail"),
        [("HpcaiHealthCheckFails", {"instance": "compute-0", "check": check}) for check in ("gpu_count", "scratch")],
        on("compute-1", "HpcaiHealthCheckFails", check="scratch"),
    ),
    "slurmctld is down": (
        on("ctl", "HpcaiSlurmctldDown"),
        on("ctl", "HpcaiSlurmdbdDown", "HpcaiSlurmdbdQueueGrows", "HpcaiSchedulerSlow", "HpcaiHealthActionsFailed")
        + on("compute-1", "HpcaiNodeOut", "HpcaiNodeOutLong"),
        on("ctl", "HpcaiClockSkew") + on("ctl2", "HpcaiSchedulerSlow"),
    ),
    "slurmdbd is down": (
        on("ctl", "HpcaiSlurmdbdDown"),
        on("ctl", "HpcaiGoodputOld"),
        on("ctl", "HpcaiSchedulerSlow"),
    ),
}


@pytest.mark.parametrize(("cause", "follows", "other"), INHIBITED.values(), ids=INHIBITED.keys())
def test_one_cause_gives_one_alert(
    alerts: Server, receiver: Service, cause: list[Alert], follows: list[Alert], other: list[Alert]
) -> None:
    def shown(found: list[dict[str, Any]]) -> list[Alert]:
        labels = [dict(one["labels"]) for one in found]
        return sorted(((one.pop("alertname"), one) for one in labels), key=str)

    def delivered() -> list[Alert]:
        messages = [json.loads(body)["alerts"] for body in receiver.posted]
        found = shown([alert for message in messages for alert in message])
        return [one for number, one in enumerate(found) if one not in found[:number]]

    for name, labels in cause:
        post(alerts, name, ended=False, **labels)
    wait(lambda: delivered() == cause, delivered)
    for name, labels in follows + other:
        post(alerts, name, ended=False, **labels)
    wait(lambda: all(one in delivered() for one in other), delivered)
    inhibited = [one for one in json.loads(alerts.get("/api/v2/alerts")) if one["status"]["state"] == "suppressed"]
    assert shown(inhibited) == sorted(follows, key=str)
    assert delivered() == sorted(cause + other, key=str)


def test_a_webhook_that_is_down_gets_the_alert_later(alerts: Server, receiver: Service) -> None:
    receiver.answers[:] = [(503, {}, b"")]
    post(alerts, "HpcaiSlurmctldDown", instance="ctl")
    wait(lambda: receiver.posted)

    def failures() -> float:
        pattern = r'^alertmanager_notifications_failed_total\{integration="webhook".*\} (\S+)$'
        return sum(map(float, re.findall(pattern, alerts.get("/metrics"), re.M)))

    # HpcaiAlertsNotDelivered is computed from this counter. Alertmanager tries for 10 s before it counts a failure.
    assert failures() == 0
    wait(lambda: failures() > 0, failures, 40)
    receiver.answers[:] = [(200, {}, b"")]
    before = len(receiver.posted)
    wait(lambda: len(receiver.posted) > before)
    assert received(receiver)[-1] == ("HpcaiSlurmctldDown", "firing")


def test_nobody_silences_alerts_without_the_password(alerts: Server) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        Server(alerts.url, alerts.folder).get("/api/v2/silences")
    assert json.loads(alerts.get("/api/v2/silences")) == []


@pytest.mark.parametrize(
    "variables",
    [
        {"monitoring_email": {"to": "ops@example.org", "from": "hpc@example.org", "smarthost": "mail:587"}},
        {"monitoring_slack": "https://hooks.slack.com/services/x"},
        {
            "monitoring_email": {
                "to": "a@b.c",
                "from": "a@b.c",
                "smarthost": "m:25",
                "username": "u",
                "password": "p'\"",
                "tls": False,
            },
            "monitoring_webhook": "http://x/",
        },
        {},
    ],
    ids=["e-mail", "slack", "all", "none"],
)
def test_alertmanager_accepts_each_configuration(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any], variables: dict[str, Any]
) -> None:
    amtool = shutil.which("amtool")
    if amtool is None:
        pytest.skip("no amtool: tests/setup/host.sh installs it")
    file = tmp_path / "alertmanager.yml"
    file.write_text(render(evaluate, "alertmanager.yml.j2", tmp_path, **variables), encoding="utf-8")
    done = subprocess.run([amtool, "check-config", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_of_debian_13_accepts_teams(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    """Older ones do not know Teams' workflows, and refuse the file when the role writes it."""
    text = render(evaluate, "alertmanager.yml.j2", tmp_path, monitoring_teams="https://prod.westus.logic.azure.com/x")
    (receiver,) = yaml.safe_load(text)["receivers"]
    (teams,) = receiver["msteamsv2_configs"]
    assert teams == {"webhook_url": "https://prod.westus.logic.azure.com/x", "send_resolved": True}
