# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The alert rules use only metrics that are written, and fire when they should."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import prometheus, record
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    TIERS,
    VERDICTS,
    Answer,
    Check,
    Reading,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import TierRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.perform import as_document
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import status
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.decide import Decision
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

REPOSITORY = pathlib.Path(__file__).parents[3]
RULES = REPOSITORY / "roles/health_checks/files/hpcai-health.rules.yml"
GUIDE = REPOSITORY / "docs/docsite/rst/guide_health_azure.rst"
EXPORTER_LABELS = {"instance", "job"}
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: tests/setup/host.sh installs it")
# A check and its result, from which the nodes' metrics are written. The verdict does not matter.
CHECK = Check("gpu_count", "GPUs", "They are there.", TIERS, lambda _context: Answer())
RESULT = Result("gpu_count", "fail", "7 of 8 GPUs", Answer(readings=(Reading("gpus", 7, limit=8),)), latched=True)
DURATION = r"\d+[smhd]"
# All words of PromQL that the rules use: aggregations, functions, set operators, modifiers.
PROMQL_WORDS = {"max", "count", "by", "time", "absent", "avg_over_time", "and", "unless", "on", "group_left"}


class _StrictLoader(yaml.SafeLoader):
    """Refuses duplicate keys in a mapping: the second value would silently replace the first."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _value in node.value]
    assert len(set(keys)) == len(keys), f"{node.start_mark}: duplicate key: {keys}"
    return dict(loader.construct_pairs(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def groups() -> list[dict[str, Any]]:
    """The groups of the file."""
    read = yaml.load(RULES.read_text(encoding="utf-8"), _StrictLoader)  # It is a SafeLoader.
    assert set(read) == {"groups"}
    return list(read["groups"])


def rules() -> list[dict[str, Any]]:
    """All alerts of the file."""
    return [rule for group in groups() for rule in group["rules"] if "alert" in rule]


def recording_rules() -> list[dict[str, Any]]:
    """All recording rules of the file, which compute a metric from others."""
    return [rule for group in groups() for rule in group["rules"] if "record" in rule]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each metric in the text files that nodes and the arbiter write."""
    folder = tmp_path_factory.mktemp("exporter")
    root = Root(str(folder))
    for tier in TIERS:
        run = TierRun(tier, 0.0, 0.8, (CHECK,), (RESULT,))
        prometheus.write(root, "", as_document(run, record.node_of(root, "Standard_ND96asr_v4", "0.1.0")))
    document = status.document(Decision(), (), {}, Settings(), 0.0)
    status.write_metrics(root, document, Settings(metrics="/arbiter"))
    files = list(folder.rglob("*.prom"))
    assert len(files) == len(TIERS) + 1
    found: dict[str, set[str]] = {}
    for file in files:
        for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", file.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    for rule in recording_rules():
        (source, *_more) = re.findall(r"\bhpcai_\w+", rule["expr"])
        kept = re.match(r"max by \(([\w, ]+)\)", rule["expr"])
        found[rule["record"]] = set(kept[1].split(", ")) if kept else found[source]
    return found


def series(name: str, value: str, **labels: str) -> dict[str, str]:
    """A series for promtool's tests."""
    pairs = ",".join(f'{label}="{word}"' for label, word in {"instance": "n1", **labels}.items())
    return {"series": f"hpcai_health_{name}{{{pairs}}}", "values": value}


def test_each_group_is_complete() -> None:
    found = groups()
    names = [group["name"] for group in found]
    assert len(names) == len(set(names)) == 2
    assert all(set(group) == {"name", "rules"} and group["rules"] for group in found)


def test_each_rule_is_complete() -> None:
    found = rules()
    assert len(found) >= 10
    names = [rule["alert"] for rule in found]
    assert len(set(names)) == len(names)
    for rule in found:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch(r"Hpcai[A-Za-z]+", rule["alert"])
        assert re.fullmatch(DURATION, rule["for"]), rule["alert"]
        assert set(rule["labels"]) == {"severity"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert all(text.strip() and "\n" not in text.strip() for text in rule["annotations"].values())


@pytest.mark.parametrize(
    "rule", [*recording_rules(), *rules()], ids=lambda rule: str(rule.get("alert", rule.get("record")))
)
def test_an_expression_has_only_known_words(rule: dict[str, Any], metrics: dict[str, set[str]]) -> None:
    """Without promtool, nothing else detects a misspelt function or metric: a YAML parser does not."""
    expression = rule["expr"]
    known = PROMQL_WORDS | metrics.keys() | set().union(*metrics.values()) | EXPORTER_LABELS
    rest = re.sub(rf'"[^"]*"|\[{DURATION}\]|\b\d+(\.\d+)?\b', " ", expression)
    assert set(re.findall(r"[A-Za-z_]\w*", rest)) <= known
    assert re.sub(r"[A-Za-z_]\w*|==|[-+*/<>=,(){}\s]", "", rest) == "", "unexpected characters"
    opened = []
    for letter in re.sub(r'"[^"]*"', "", expression):
        if letter in "([{":
            opened.append(letter)
        elif letter in ")]}":
            assert opened, expression
            assert opened.pop() + letter in ("()", "[]", "{}"), expression
    assert not opened


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_texts_have_only_valid_template_fields(rule: dict[str, Any]) -> None:
    for text in rule["annotations"].values():
        left = re.sub(r"\{\{ (\$labels\.\w+|\$externalURL|\$value( \| humanizeDuration)?) \}\}", "", text)
        assert not set(left) & set("{}$"), text


def test_rules_use_only_metrics_that_are_written(metrics: dict[str, set[str]]) -> None:
    asked = {name for rule in [*recording_rules(), *rules()] for name in re.findall(r"\bhpcai_\w+", rule["expr"])}
    assert asked
    assert asked <= set(metrics)


def test_the_guide_lists_these_alerts() -> None:
    listed = re.findall(r"^``(Hpcai\w+)``", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [rule["alert"] for rule in rules()]


def test_rules_use_only_labels_and_values_that_are_written(metrics: dict[str, set[str]]) -> None:
    values = {"verdict": VERDICTS, "tier": TIERS}
    checked = 0
    for rule in rules():
        for name, selector in re.findall(r"\b(hpcai_\w+)\{([^}]*)\}", rule["expr"]):
            for label, value in re.findall(r'(\w+)="([^"]*)"', selector):
                checked += 1
                assert label in metrics[name]
                assert value in values[label]
    assert checked


def test_texts_use_only_labels_that_the_expression_returns(metrics: dict[str, set[str]]) -> None:
    for rule in rules():
        (kept,) = re.findall(r"^(?:max|count) by \(([\w, ]+)\)", rule["expr"]) or [""]
        of_metrics = {label for name in re.findall(r"\bhpcai_\w+", rule["expr"]) for label in metrics[name]}
        available = set(kept.split(", ")) if kept else of_metrics | EXPORTER_LABELS
        used = {label for text in rule["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}
        assert used <= available, rule["alert"]


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


VERDICT = {"tier": "periodic", "check": "gpu_count"}
CPU = {**VERDICT, "check": "cpu"}


def ran(tier: str = "periodic", values: str = "0+60x3000", **labels: str) -> dict[str, str]:
    """The series of a tier that runs each minute, or at the given times."""
    return series("run_timestamp_seconds", values, tier=tier, **labels)


def failing(nodes: int, *checks: str, first: int = 0) -> list[dict[str, str]]:
    """The series of nodes with these failed checks, by default gpu_count."""
    names = [f"n{number}" for number in range(first, first + nodes)]
    failed = {**VERDICT, "verdict": "fail"}
    verdicts = [
        series("check_verdict", "1x100", **{**failed, "check": check}, instance=name)
        for name in names
        for check in checks or ("gpu_count",)
    ]
    return [*verdicts, *(ran(instance=name) for name in names)]


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "fires", "does_not_fire"),
    [
        (
            "HpcaiHealthCheckFails",
            [series("check_verdict", "1x100", **VERDICT, verdict="fail"), ran()],
            [series("check_verdict", "1x100", **VERDICT, verdict="pass"), ran()],
        ),
        (
            "HpcaiHealthCheckFailsOnMany",
            failing(4),
            failing(3),
        ),
        # Two checks of a node, and one check of each of two nodes.
        (
            "HpcaiHealthSeveralChecksFail",
            failing(1, "gpu_count", "scratch"),
            [*failing(1), *failing(1, "scratch", first=1)],
        ),
        # What fails on many nodes does not count.
        (
            "HpcaiHealthSeveralChecksFail",
            failing(3, "gpu_count", "scratch"),
            [*failing(4, "gpu_count", "scratch"), series("check_verdict", "1x100", **CPU, verdict="fail")],
        ),
        (
            "HpcaiHealthCheckUnknown",
            [series("check_verdict", "1x100", **VERDICT, verdict="unknown"), ran()],
            [series("check_verdict", "_x50 1x50", **VERDICT, verdict="unknown"), ran()],
        ),
        (
            "HpcaiHealthNotRun",
            [series("run_timestamp_seconds", "0x100", tier="periodic")],
            [series("run_timestamp_seconds", "0+60x100", tier="periodic")],
        ),
        (
            "HpcaiHealthNoMetrics",
            [series("other", "1x100")],
            [series("run_timestamp_seconds", "1x100", tier="periodic")],
        ),
        (
            "HpcaiHealthPrologSlow",
            [series("run_seconds", "3x100", tier="prolog"), ran("prolog")],
            [series("run_seconds", "1x100", tier="prolog"), ran("prolog")],
        ),
        ("HpcaiHealthCapReached", [series("cap_reached", "1x100")], [series("cap_reached", "0x100")]),
        (
            "HpcaiHealthManyOut",
            [series("nodes_out", "3x100"), series("max_out", "4x100")],
            [series("nodes_out", "2x100"), series("max_out", "4x100")],
        ),
        ("HpcaiHealthNodesHeld", [series("nodes_held", "1x100")], [series("nodes_held", "0x100")]),
        ("HpcaiHealthNodesToReplace", [series("nodes_to_replace", "2x100")], [series("nodes_to_replace", "0x100")]),
        (
            "HpcaiHealthNodesWithoutReport",
            [series("nodes_without_report", "1x100")],
            [series("nodes_without_report", "0x100")],
        ),
        ("HpcaiHealthActionsFailed", [series("actions_failed", "1x100")], [series("actions_failed", "0x100")]),
        (
            "HpcaiHealthArbiterStopped",
            [series("arbiter_timestamp_seconds", "0x100")],
            [series("arbiter_timestamp_seconds", "0+60x100")],
        ),
    ],
)
def test_an_alert_fires_only_when_it_should(
    tmp_path: pathlib.Path, alert: str, fires: list[dict[str, str]], does_not_fire: list[dict[str, str]]
) -> None:
    assert fires_on(tmp_path, alert, fires), alert
    assert not fires_on(tmp_path, alert, does_not_fire), alert


@pytest.mark.daily(2)
@needs_promtool
@pytest.mark.parametrize(
    ("alert", "old"),
    [
        ("HpcaiHealthCheckFails", [series("check_verdict", "1x1600", check="gemm", tier="deep", verdict="fail")]),
        ("HpcaiHealthCheckFails", [series("check_verdict", "1x1600", check="cpu", tier="boot", verdict="fail")]),
        ("HpcaiHealthCheckUnknown", [series("check_verdict", "1x1600", check="x", tier="deep", verdict="unknown")]),
        ("HpcaiHealthFaultKept", [series("check_latched", "1x1600", check="gpu_xid", tier="boot")]),
        ("HpcaiHealthPrologSlow", [series("run_seconds", "3x1600", tier="prolog")]),
    ],
)
def test_an_alert_ends_if_only_other_tiers_have_run_since(
    tmp_path: pathlib.Path, alert: str, old: list[dict[str, str]]
) -> None:
    """The text file of a tier remains until the tier runs again. Without this rule, the alert of a deep run would never
    end."""
    once = [ran(tier, "0x1600") for tier in ("deep", "boot", "prolog")]
    fresh = [ran(tier, "0+60x1600") for tier in ("deep", "boot", "prolog")]
    assert fires_on(tmp_path, alert, [*old, *fresh], "1550m")
    assert not fires_on(tmp_path, alert, [*old, *once, ran(values="0+60x1600")], "1550m")


def fires_on(folder: pathlib.Path, alert: str, given: list[dict[str, str]], when: str = "95m") -> bool:
    """Whether an alert fires with these series."""
    count = {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": when}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [{**count, "exp_samples": []}]}
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}), encoding="utf-8")
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    # The test expects no sample, so promtool fails if the alert fires.
    assert done.returncode == 0 or "got:" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode != 0
