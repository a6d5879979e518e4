# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all nodes reported, as one document."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import pytest
from stand_ins.health_results import cluster, reading

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import hardware_faults
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import Fault, Machine
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import (
    NodeResult,
    find_suspects,
    gather,
    is_time,
    registered,
    verdict_of,
    worst,
)

RESULT = {"health": {"checks": [{"name": "gpu_count", "readings": [{"value": 8}]}]}}


class HostVars(dict[str, Any]):
    """As Ansible's own: an item is templated, what raw_get gives is not."""

    def __init__(self, raw: dict[str, Any], templated: dict[str, Any] | None = None) -> None:
        super().__init__(templated or {})
        self.raw = raw

    def __contains__(self, host: object) -> bool:
        return host in self.raw

    def raw_get(self, host: str) -> Any:
        """What nobody has gone over."""
        return self.raw[host]


class Text(str):
    """As Ansible's strings: one that has more to it."""


def test_a_result_is_not_templated() -> None:
    # An item would be a KeyError.
    assert registered(HostVars({"n-0": {"checked": RESULT}}), "n-0", "checked") == RESULT


def test_a_template_that_leads_to_a_result_is() -> None:
    raw, templated = {"n-0": {"checked": "{{ other }}"}}, {"n-0": {"checked": RESULT}}
    assert registered(HostVars(raw, templated), "n-0", "checked") == RESULT


def test_what_is_not_there_is_none() -> None:
    assert registered(HostVars({"n-0": {}}), "n-0", "checked") is None
    assert registered(HostVars({}), "n-0", "checked") is None


def test_values_are_plain_and_a_mapping_will_do() -> None:
    found = registered({"n-0": {"checked": {Text("a"): (Text("b"), 1, None)}}}, "n-0", "checked")
    assert found == {"a": ["b", 1, None]}
    assert {type(found), type(found["a"]), *map(type, found["a"]), *map(type, found)} == {
        dict,
        list,
        str,
        int,
        type(None),
    }


WHEN = "2026-11-22T16:40:00Z"


def answer(verdict: str = "pass", tier: str = "periodic", **more: Any) -> dict[str, Any]:
    """What a task registers for a node with one check."""
    check = {"name": "gpu_count", "verdict": verdict, "summary": "8 of 8 GPUs", "findings": [], "readings": []}
    document = {"schema": 1, "tier": tier, "time": WHEN, "verdict": verdict, "node": {}, "checks": [check], **more}
    return {"health": document}


def report(*asked: NodeResult, **more: Any) -> dict[str, Any]:
    """The report on these nodes."""
    return gather(asked, tier="periodic", time=WHEN, **more)


def test_counts_each_node_once() -> None:
    nodes = [NodeResult(one["host"], one["result"], one["inventory"]) for one in cluster(12)]
    found = gather(nodes, tier="deep", time=WHEN)
    assert found["counts"] == {"fail": 2, "no_answer": 1, "unknown": 1, "warn": 2, "pass": 6, "skip": 0}
    assert found["verdict"] == "fail"
    assert [node["host_name"] for node in found["nodes"]][:3] == ["compute-0", "compute-1", "compute-2"]
    assert found["nodes"][-1]["host_name"] == "compute-11"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"unreachable": True, "msg": "Failed to connect\nto the host"}, "could not be reached: Failed to connect to"),
        ({"failed": True, "msg": "there is no check x"}, "the checks could not be run: there is no check x"),
        ({}, "was not checked"),
        (answer(schema=2), "the result has schema 2, this collection reads 1"),
        (answer(tier="deep"), "the result is of the tier 'deep', not 'periodic'"),
        (answer(checks=[]), "ran no check"),
        (answer(verdict="splendid"), "ran no check"),
        (answer(checks=["gpu_count"]), "another form than hpcnode writes"),
        (answer(checks=7), "another form than hpcnode writes"),
        (answer(checks=[{"name": "x", "verdict": "fail", "findings": ["y"]}]), "another form than hpcnode writes"),
        (answer(checks=[{"name": "x", "verdict": "pass", "readings": {"a": 1}}]), "another form than hpcnode writes"),
        (answer(node="compute-1"), "another form than hpcnode writes"),
    ],
)
def test_a_node_without_a_result_has_a_row_that_says_why(result: dict[str, Any], words: str) -> None:
    found = report(
        NodeResult("compute-0", answer()), NodeResult("compute-1", result, {"azure_vm_size": "Standard_ND96asr_v4"})
    )
    row = found["nodes"][1]
    assert row["state"] == "no_answer"
    assert words in row["problem"]
    assert row["vm_size"] == "Standard_ND96asr_v4"
    assert found["counts"]["no_answer"] == 1
    assert found["verdict"] == "unknown"


def test_a_failed_task_with_results_counts_by_its_results() -> None:
    found = report(NodeResult("compute-0", {**answer("fail"), "failed": True, "msg": "gpu_count"}))
    assert found["nodes"][0]["state"] == "fail"
    assert found["nodes"][0]["problem"] == ""


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"fail": 1, "no_answer": 5, "pass": 9}, "fail"),
        ({"no_answer": 1, "pass": 9}, "unknown"),
        ({"unknown": 1, "warn": 3}, "unknown"),
        ({"warn": 1, "pass": 3}, "warn"),
        ({"pass": 3, "skip": 3}, "pass"),
        ({"skip": 3}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_worst_decides_and_nothing_is_unknown(counts: dict[str, int], verdict: str) -> None:
    assert verdict_of(counts) == verdict


def test_checks_that_only_some_nodes_have_keep_their_place() -> None:
    def checks(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "verdict": "pass"} for name in names]

    one, two = answer(checks=checks("gpu_count", "memory")), answer(checks=checks("gpu_count", "ib_ports", "memory"))
    assert report(NodeResult("a", one), NodeResult("b", two))["checks"] == ["gpu_count", "ib_ports", "memory"]


def test_what_a_node_writes_can_always_be_written_as_json() -> None:
    odd = [reading("a", math.nan), reading("b", math.inf), reading("c", [1]), reading("d", True), reading("e", None)]
    odd.append(reading("f", 10**400))
    check = {"name": "x", "verdict": "gorgeous", "seconds": math.nan, "readings": odd, "findings": [{"summary": 4}]}
    found = report(NodeResult("compute-0", answer(checks=[check])))
    json.dumps(found, allow_nan=False)
    row = found["nodes"][0]["checks"][0]
    assert row["verdict"] == "unknown"
    assert row["findings"][0]["verdict"] == "unknown"
    assert row["findings"][0]["summary"] == "4"
    assert row["seconds"] == 0
    assert [each["value"] for each in row["readings"]] == ["nan", "inf", "[1]", "True", "None", str(10**400)]


def test_the_first_check_of_the_nodes_own_verdict_is_to_blame() -> None:
    checks = [{"name": name, "verdict": verdict} for name, verdict in (("a", "warn"), ("b", "fail"), ("c", "fail"))]
    node = report(NodeResult("compute-0", answer("fail", checks=checks)))["nodes"][0]
    guilty = worst(node)
    assert guilty is not None
    assert guilty["name"] == "b"
    assert worst(report(NodeResult("compute-0", answer()))["nodes"][0]) is None


TIME = "2026-11-22T16:40:00Z"
FAULT = Fault("gpu_count", "NHC2009", "7 of 8 GPUs", "", TIME)


def asked(host: str, vm_id: str = "vm-9", **changes: Any) -> NodeResult:
    """A sound node on a host."""
    node = {"name": f"on {host}", "vm_id": vm_id, "host": host}
    document = {"schema": 1, "command": "health", "time": TIME, "node": node, "checks": []} | changes
    return NodeResult("compute-9", {"health": document}, {"azure_vm_id": "vm-9"})


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A report's folder with a record of HOSTA."""
    faults = hardware_faults.MachineFaults(Machine("compute-3", "vm-3", "HOSTA", TIME), (FAULT,))
    record = hardware_faults.update_record({}, [faults], 90)
    (tmp_path / "hosts.json").write_text(hardware_faults.record_text(record), encoding="utf-8")
    return tmp_path


def test_node_on_a_bad_host_is_named(folder: pathlib.Path) -> None:
    (suspect,) = find_suspects([asked("hosta.example"), asked("HOSTB")], str(folder))
    assert "on hosta.example came up on the physical host HOSTA" in suspect["warning"]
    assert suspect["host_name"] == "compute-9", "as the report calls it"


def test_vm_id_of_the_inventory_counts_where_the_node_does_not_know_its_own(folder: pathlib.Path) -> None:
    (suspect,) = find_suspects([asked("HOSTA", vm_id="")], str(folder))
    assert suspect["vm_id"] == "vm-9"


def test_node_without_a_result_is_no_suspect(folder: pathlib.Path) -> None:
    silent = NodeResult("compute-1", {"unreachable": True})
    assert find_suspects([silent, asked("HOSTA", schema=9)], str(folder)) == []


def test_without_a_record_nobody_is(tmp_path: pathlib.Path) -> None:
    assert find_suspects([asked("HOSTA")], str(tmp_path)) == []


def test_broken_record_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hosts.json").write_text("{", encoding="utf-8")
    with pytest.raises(InventoryError, match=r"hosts\.json is not a valid record of physical hosts"):
        find_suspects([asked("HOSTA")], str(tmp_path))


def test_what_commands_and_links_are_made_of_comes_from_the_inventory() -> None:
    liar = answer(node={"name": "compute-[0-99]", "azure_id": "/x", "slurm_name": "x"})
    inventory = {"azure_id": "/subscriptions/s", "slurm_node_name": "compute-3"}
    told, bare = report(NodeResult("vm-3", liar, inventory), NodeResult("vm-4", liar))["nodes"]
    assert (told["name"], told["slurm_name"], told["azure_id"]) == ("compute-[0-99]", "compute-3", "/subscriptions/s")
    assert (bare["slurm_name"], bare["azure_id"]) == ("vm-4", "")


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        (WHEN, True),
        ("", False),
        ("2026-11-22", False),
        ("2026-11-22T16:40:00+01:00", False),
        (f"{WHEN}\n", False),
        (f"{WHEN}<b>", False),
        ("\uff12026-11-22T16:40:00Z", False),
    ],
)
def test_a_time_has_one_form(text: str, yes: bool) -> None:
    assert is_time(text) is yes
