# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The newest results of benchmarks on the health report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._report import benchmarks
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.commands import commands_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather

TIME = "2026-11-22T16:40:00Z"


def check(name: str, verdict: str, value: float = 1.0) -> dict[str, Any]:
    """A check's entry."""
    finding = {"verdict": verdict, "summary": "slow"}
    return {
        "name": name,
        "verdict": verdict,
        "summary": "slow" if verdict != "pass" else "good",
        "findings": [finding] if verdict in ("fail", "warn", "unknown") else [],
        "readings": [{"name": name, "value": value, "unit": "GB/s"}],
    }


def node(host: str, tier: str, *checks: dict[str, Any], vm_id: str = "v-1", time: str = TIME) -> NodeResult:
    """A node's result."""
    order = ("fail", "unknown", "warn", "pass")
    verdict = min((one["verdict"] for one in checks), key=order.index)
    document = {"schema": 1, "tier": tier, "time": time, "verdict": verdict, "checks": list(checks), "seconds": 1.0}
    return NodeResult(host, {"health": document}, {"azure_vm_id": vm_id})


HEALTHY = node("n-0", "periodic", check("gpu_count", "pass"))


def test_a_failed_benchmark_is_a_warning_on_the_health_report() -> None:
    held = benchmarks.merged({}, [node("n-0", "benchmark", check("gemm", "fail"))])
    shown = benchmarks.with_benchmarks(HEALTHY, held)
    report = gather([shown], tier="periodic", time=TIME)
    (one,) = report["nodes"]
    assert one["state"] == "warn"
    assert [each["name"] for each in one["checks"]] == ["gpu_count", "bench_gemm"]
    bench = one["checks"][1]
    assert (bench["verdict"], bench["findings"][0]["verdict"]) == ("warn", "warn")
    assert bench["summary"] == "failed: slow (measured on 2026-11-22)"
    assert bench["readings"][0]["name"] == "bench_gemm"


@pytest.mark.parametrize(("health", "bench", "state"), [("fail", "pass", "fail"), ("pass", "unknown", "pass")])
def test_a_benchmark_changes_no_other_state(health: str, bench: str, state: str) -> None:
    held = benchmarks.merged({}, [node("n-0", "benchmark", check("gemm", bench))])
    shown = benchmarks.with_benchmarks(node("n-0", "periodic", check("gpu_count", health)), held)
    assert gather([shown], tier="periodic", time=TIME)["nodes"][0]["state"] == state


def test_results_of_another_machine_of_that_name_are_not_shown() -> None:
    held = benchmarks.merged({}, [node("n-0", "benchmark", check("gemm", "fail"), vm_id="old")])
    assert benchmarks.with_benchmarks(HEALTHY, held) == HEALTHY
    after = benchmarks.merged(held, [node("n-0", "benchmark", check("hpl", "pass"))])
    assert list(after["n-0"]["checks"]) == ["hpl"]


def test_a_node_without_an_answer_stays_without_one() -> None:
    held = benchmarks.merged({}, [node("n-0", "benchmark", check("gemm", "pass"))])
    silent = NodeResult("n-0", {"unreachable": True}, {"azure_vm_id": "v-1"})
    assert benchmarks.with_benchmarks(silent, held) == silent


def test_the_newest_result_of_each_benchmark_is_kept(tmp_path: Path) -> None:
    first = benchmarks.merged({}, [node("n-0", "benchmark", check("gemm", "pass"), check("hpl", "pass"))])
    assert benchmarks.write(str(tmp_path), first)
    assert not benchmarks.write(str(tmp_path), first)
    later = node("n-0", "benchmark", check("gemm", "warn", 2.0), time="2026-11-23T16:40:00Z")
    both = benchmarks.merged(benchmarks.read(str(tmp_path)), [later])
    assert {name: one["time"][:10] for name, one in both["n-0"]["checks"].items()} == {
        "gemm": "2026-11-23",
        "hpl": "2026-11-22",
    }
    assert benchmarks.write(str(tmp_path), both, dry=True)
    assert benchmarks.read(str(tmp_path)) == first


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2, "hosts": {}}', '{"schema": 1}', '{"schema": 1, "hosts": [1]}']
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / benchmarks.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InventoryError, match=r"benchmarks\.json"):
        benchmarks.read(str(tmp_path))


def test_without_a_file_there_are_no_results(tmp_path: Path) -> None:
    assert benchmarks.read(str(tmp_path / "nothing")) == {}
    (tmp_path / "file").write_text(json.dumps({}), encoding="utf-8")
    assert benchmarks.read(str(tmp_path / "file")) == {}


def test_the_page_of_benchmarks_offers_no_command_that_drains() -> None:
    report = gather([node("n-0", "benchmark", check("gemm", "fail"))], tier="benchmark", time=TIME)
    assert [command.label for command in commands_of(report)] == ["Host list", "scontrol show"]
    health = gather([HEALTHY], tier="periodic", time=TIME)
    assert "scontrol drain" in [command.label for command in commands_of(health)]
