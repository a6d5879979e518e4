# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text file for Prometheus, read by a parser that is as strict as Prometheus'."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, Answer, Finding, Reading
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.output import prometheus
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.output.as_json import as_document
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
NODE = {"name": "batch-7", "vm_id": "5f3c", "vm_size": "Standard_ND96asr_v4", "host": 'a"b\\c\nd'}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Series:
    """Return the samples; fail where Prometheus would refuse the file.

    github.com/prometheus/docs, content/docs/instrumenting/exposition_formats.md.
    """
    samples: Series = {}
    described: dict[str, set[str]] = {}
    current = ""
    assert text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            kind, name, words = line[2:].split(" ", 2)
            assert kind in ("HELP", "TYPE"), line
            assert kind not in described.setdefault(name, set()), f"{kind} of {name} comes twice"
            assert kind == "HELP" or words in ("gauge", "counter", "untyped", "histogram", "summary"), line
            assert not [one for one, _labels in samples if one == name], f"{kind} of {name} comes after its samples"
            described[name].add(kind)
            current = name
            continue
        found = re.fullmatch(rf"({NAME})(?:\{{(.*)\}})? (\S+)", line)
        assert found, line
        name, labels, value = found.groups()
        assert name == current, f"{name} is not with the others of its name"
        assert described[name] == {"HELP", "TYPE"}
        series = (name, frozenset(_labels(labels or "")))
        assert series not in samples, f"{line} comes twice"
        samples[series] = float(value)
    return samples


def _labels(text: str) -> list[tuple[str, str]]:
    pairs, place = [], 0
    while place < len(text):
        found = LABEL.match(text, place)
        assert found, text[place:]
        words = re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], found[2])
        pairs.append((found[1], words))
        place = found.end()
    assert len({name for name, _words in pairs}) == len(pairs), text
    return pairs


def value(samples: Series, name: str, **labels: str) -> float:
    """The one sample that has these labels among others."""
    (found,) = [
        number
        for (one, all_of), number in samples.items()
        if one == f"hpcai_health_{name}" and set(labels.items()) <= all_of
    ]
    return found


@pytest.fixture
def document(node: Any, make_check: Any) -> dict[str, Any]:
    """A run with all that a file can hold."""
    readings = (
        Reading("temperature", 61, "C", "0001:00:00.0", limit=87.5, at_most=True),
        Reading("temperature", 1e-3, "C", "0002:00:00.0"),
        Reading("model", "A100"),
        Reading("strange", 1e20, "GB/s", 'quo"te\\back\nline', limit=2.0),
    )
    failing = Answer(findings=(Finding(FAIL, 'it is "lost"\nhere'),), readings=readings)
    done = node.tier(make_check(failing, "gpu_x"), make_check(Answer("x", (*readings, *readings)), "gpu_y"))
    return as_document(done, NODE)


def test_prometheus_can_read_it(document: dict[str, Any]) -> None:
    samples = parse(prometheus.as_text(document))
    assert value(samples, "check_verdict", check="gpu_x", verdict="fail") == 1
    verdicts = [dict(labels)["verdict"] for name, labels in samples if name == "hpcai_health_check_verdict"]
    assert verdicts == ["fail", "pass"], "one series a check"
    assert value(samples, "check_verdict", check="gpu_y", verdict="pass") == 1
    assert value(samples, "run_verdict", verdict="fail", tier="periodic") == 1
    assert not [
        name for name, _labels in samples if name in ("hpcai_health_check_latched", "hpcai_health_check_seconds")
    ]
    assert value(samples, "reading", check="gpu_x", device="0001:00:00.0", unit="C") == 61
    assert value(samples, "reading", check="gpu_x", device="0002:00:00.0") == 0.001
    assert value(samples, "reading", check="gpu_x", device='quo"te\\back\nline') == 1e20
    assert value(samples, "reading_limit", check="gpu_x", device="0001:00:00.0", bound="max") == 87.5
    assert value(samples, "reading_limit", check="gpu_x", device='quo"te\\back\nline', bound="min") == 2
    assert value(samples, "node_info", host='a"b\\c\nd', vm_id="5f3c") == 1
    assert not [labels for (_name, labels) in samples if ("name", "model") in labels], "a word is no number"


def test_what_a_check_took_is_told_where_it_matters_and_what_is_latched(document: dict[str, Any]) -> None:
    for check in document["checks"]:
        check.update(latched=True, seconds=1.5)
    samples = parse(prometheus.as_text(document))
    assert value(samples, "check_latched", check="gpu_x") == 1
    assert value(samples, "check_seconds", check="gpu_x") == 1.5
    document["checks"][0]["seconds"] = 0.25
    document["tier"] = "prolog"
    assert value(parse(prometheus.as_text(document)), "check_seconds", check="gpu_x") == 0.25


def test_the_time_of_the_run_is_a_metric_and_no_stamp(document: dict[str, Any]) -> None:
    document["time"] = "2026-11-22T16:40:00Z"
    text = prometheus.as_text(document)
    assert value(parse(text), "run_timestamp_seconds") == 1795365600
    assert 'hpcai_health_run_timestamp_seconds{tier="periodic"} 1795365600\n' in text


def test_the_files_of_two_tiers_describe_their_metrics_alike(document: dict[str, Any]) -> None:
    """The collector refuses a metric whose help differs between files, and series that two files have."""
    one, two = (prometheus.as_text({**document, "tier": tier}) for tier in ("prolog", "deep"))
    described = [{line for line in text.splitlines() if line.startswith("#")} for text in (one, two)]
    assert described[0] >= described[1] != set()
    assert not parse(one).keys() & parse(two).keys()


@pytest.mark.parametrize(
    ("number", "told"), [(float("inf"), "+Inf"), (float("nan"), "NaN"), (2.0, "2"), (0.25, "0.25")]
)
def test_numbers_are_written_as_prometheus_reads_them(document: dict[str, Any], number: float, told: str) -> None:
    document["seconds"] = number
    assert f'run_seconds{{tier="periodic"}} {told}\n' in prometheus.as_text(document)


def test_without_a_folder_no_file_is_written(node: Any) -> None:
    assert prometheus.folder_of(node.root, Settings()) == ""
    node.write(f"{prometheus.FOLDER}/other.prom", "")
    assert prometheus.folder_of(node.root, Settings()) == prometheus.FOLDER
    assert prometheus.folder_of(node.root, Settings(prometheus="")) == ""
    assert prometheus.folder_of(node.root, Settings(prometheus="/x")) == "/x"


def test_the_file_is_replaced_in_one_step(node: Any, document: dict[str, Any]) -> None:
    for _time in range(2):
        prometheus.write(node.root, "/metrics", document)
    (file,) = (node.folder / "metrics").iterdir()
    assert file.name == "hpcai_health_periodic.prom", "no half of it is left that the collector would read"
    assert file.read_text(encoding="utf-8") == prometheus.as_text(document)


def test_the_document_is_plain(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document)) == document
