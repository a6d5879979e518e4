# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file for Prometheus: its form, and the number of its series."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import prometheus
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES, load
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    DEEP,
    FAIL,
    TIERS,
    Answer,
    Finding,
    Reading,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import TierRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.perform import as_document
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.exposition import TEXT_FOLDER

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
NODE = {"name": "batch-7", "vm_id": "5f3c", "vm_size": "Standard_ND96asr_v4", "host": 'a"b\\c\nd'}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Series:
    """Return the samples; fail if Prometheus would refuse the file.

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
    """Return the value of the only sample with these labels."""
    (found,) = [
        number
        for (one, all_of), number in samples.items()
        if one == f"hpcai_health_{name}" and set(labels.items()) <= all_of
    ]
    return found


@pytest.fixture
def document(node: Any, make_check: Any) -> dict[str, Any]:
    """A run with everything that a file can contain."""
    readings = (
        Reading("temperature", 61, "C", "0001:00:00.0", limit=87.5, at_most=True),
        Reading("temperature", 1e-3, "C", "0002:00:00.0"),
        Reading("model", "A100"),
        Reading("strange", 1e20, "GB/s", 'quo"te\\back\nline', limit=2.0),
    )
    failing = Answer(findings=(Finding(FAIL, 'it is "lost"\nhere'),), readings=readings)
    done = node.tier(make_check(failing, "gpu_x"), make_check(Answer("x", (*readings, *readings)), "gpu_y"))
    return as_document(done, NODE)


def test_prometheus_can_read_the_file(document: dict[str, Any]) -> None:
    samples = parse(prometheus.as_text(document))
    assert value(samples, "check_verdict", check="gpu_x", verdict="fail") == 1
    verdicts = [dict(labels)["verdict"] for name, labels in samples if name == "hpcai_health_check_verdict"]
    assert verdicts == ["fail", "pass"], "one series per check"
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
    assert not [labels for (_name, labels) in samples if ("name", "model") in labels], "a text is no number"


def test_long_durations_and_latched_checks_are_written(document: dict[str, Any]) -> None:
    for check in document["checks"]:
        check.update(latched=True, seconds=1.5)
    samples = parse(prometheus.as_text(document))
    assert value(samples, "check_latched", check="gpu_x") == 1
    assert value(samples, "check_seconds", check="gpu_x") == 1.5
    document["checks"][0]["seconds"] = 0.25
    document["tier"] = "prolog"
    assert value(parse(prometheus.as_text(document)), "check_seconds", check="gpu_x") == 0.25


def test_the_time_of_the_run_is_a_metric_and_no_timestamp(document: dict[str, Any]) -> None:
    document["time"] = "2026-11-22T16:40:00Z"
    text = prometheus.as_text(document)
    assert value(parse(text), "run_timestamp_seconds") == 1795365600
    assert 'hpcai_health_run_timestamp_seconds{tier="periodic"} 1795365600\n' in text


def test_files_of_two_tiers_have_the_same_help_and_no_common_series(document: dict[str, Any]) -> None:
    """The collector refuses a metric whose help differs between files, and a series that is in two files."""
    one, two = (prometheus.as_text({**document, "tier": tier}) for tier in ("prolog", "deep"))
    described = [{line for line in text.splitlines() if line.startswith("#")} for text in (one, two)]
    assert described[0] >= described[1] != set()
    assert not parse(one).keys() & parse(two).keys()


@pytest.mark.parametrize(
    ("number", "written_as"), [(float("inf"), "+Inf"), (float("nan"), "NaN"), (2.0, "2"), (0.25, "0.25")]
)
def test_numbers_are_written_as_prometheus_reads_them(document: dict[str, Any], number: float, written_as: str) -> None:
    document["seconds"] = number
    assert f'run_seconds{{tier="periodic"}} {written_as}\n' in prometheus.as_text(document)


def test_without_a_folder_no_file_is_written(node: Any) -> None:
    assert prometheus.folder_of(node.root, Settings()) == ""
    node.write(f"{TEXT_FOLDER}/other.prom", "")
    assert prometheus.folder_of(node.root, Settings()) == TEXT_FOLDER
    assert prometheus.folder_of(node.root, Settings(prometheus="")) == ""
    assert prometheus.folder_of(node.root, Settings(prometheus="/x")) == "/x"


def test_the_file_is_replaced_in_one_step(node: Any, document: dict[str, Any]) -> None:
    for _time in range(2):
        prometheus.write(node.root, "/metrics", document)
    (file,) = (node.folder / "metrics").iterdir()
    assert file.name == "hpcai_health_periodic.prom", "no temporary file is left for the collector to read"
    assert file.read_text(encoding="utf-8") == prometheus.as_text(document)


def test_the_document_can_be_written_as_json(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document)) == document


MOST = 800
GPUS = [f"000{number}:00:00.0" for number in range(8)]
PORTS = [f"mlx5_ib{number}" for number in range(8)]
DISKS = [f"nvme{number}n1" for number in range(8)]
ONE = [""]
ECC = [f"{memory}_{kind}_{since}" for memory in ("sram", "dram") for kind in ("corrected", "uncorrected")
       for since in ("volatile", "aggregate")]  # fmt: skip
IB = ("symbol_error", "link_error_recovery", "port_rcv_errors", "local_link_integrity_errors", "excessive_buffer")
NUMBERS: Mapping[str, Mapping[str, tuple[list[str], bool]]] = {
    # The numeric readings of each check on an ND node: name, devices, and whether there is a limit.
    "gpu_count": {"gpu_count": (ONE, True)},
    "gpu_fabric": {"gpu_fabric_state": (GPUS, False)},
    "gpu_nvlink": {
        "gpu_nvlinks_up": (GPUS, True),
        **{f"gpu_nvlink_{kind}": (GPUS, False) for kind in ("replay", "recovery", "crc_flit", "crc_data")},
    },
    "gpu_ecc": {f"gpu_ecc_{name}": (GPUS, True) for name in ECC},
    "gpu_row_remap": {"gpu_rows_uncorrected": (GPUS, True), "gpu_rows_corrected": (GPUS, False)},
    "gpu_retired_pages": {"gpu_retired_pages": (GPUS, True)},
    "gpu_pcie": {"gpu_pcie_width": (GPUS, True), "gpu_pcie_generation": (GPUS, True)},
    "gpu_throttle": {"gpu_clock_reasons": (GPUS, False)},
    "gpu_temperature": {"gpu_temperature": (GPUS, True)},
    "gpu_power": {"gpu_power": (GPUS, False), "gpu_power_limit": (GPUS, True)},
    "gpu_clocks": {"gpu_graphics_clock": (GPUS, False), "gpu_memory_clock": (GPUS, False)},
    "gpu_persistence": {"gpu_persistence": (GPUS, True)},
    "gpu_processes": {"gpu_processes": (GPUS, False), "gpu_idle_memory": (GPUS, True)},
    "gpu_xid": {"gpu_xids": (ONE, False), "gpu_xids_of_gpu": (GPUS, False)},
    "gpu_sxid": {f"nvswitch_{kind}": (ONE, False) for kind in ("fatal", "other", "corrected")},
    "gpu_driver_log": {"gpu_driver_messages": (ONE, False)},
    "machine_check": {
        "machine_checks": (ONE, False),
        "memory_uncorrected": (["MC0", "MC1"], True),
        "memory_corrected": (["MC0", "MC1"], False),
    },
    "kernel_trouble": {"kernel_troubles": (ONE, False)},
    "disk_errors": {"disk_errors": (ONE, False)},
    "pcie_errors": {"pcie_errors": (ONE, False)},
    "ib_driver_log": {"ib_driver_messages": (ONE, False)},
    "ib_ports": {"ib_ports_active": (ONE, True)},
    "ib_rate": {"ib_rate": (PORTS, True)},
    "ib_errors": {f"ib_{name}": (PORTS, True) for name in IB},
    "ib_flaps": {"ib_flaps": (PORTS, True)},
    "accelerated_nic": {"accelerated_nic_rate": (["mlx5_an0"], True)},
    "scratch": {"scratch_array_members": (["md0"], True)},
    "nvme_count": {"nvme_disks": (ONE, True)},
    "nvme_smart": {f"nvme_{name}": (DISKS, False) for name in ("critical_warning", "percentage_used", "media_errors")},
    "mounts": {"mount_answer": (["/shared", "/home"], True)},
    "free_space": {name: (["/", "/tmp", "/dev/shm", "/scratch"], True) for name in ("free_space", "free_inodes")},
    "cpu": dict.fromkeys(("cpus_online", "cpu_sockets", "cpu_threads"), (ONE, True)),
    "memory": {"memory_total": (ONE, True)},
    "swap": {"swap_total": (ONE, True), "swap_used": (ONE, False)},
    "numa": {"numa_nodes": (ONE, True), "numa_memory": ([f"node{number}" for number in range(4)], False)},
    "time_sync": {"clock_offset": (ONE, True)},
    "leftovers": {"processes": (ONE, True), "files": (ONE, True), "bytes": (ONE, False)},
    "load": dict.fromkeys(("load", "zombies", "processes_waiting", "memory_available"), (ONE, True)),
    "gpu_host_bandwidth": {f"{way}_bandwidth": (GPUS, True) for way in ("h2d", "d2h")},
    "gpu_peer_bandwidth": {"gpu_peer_bandwidth": (GPUS, True)},
    "nccl_allreduce": {"nccl_allreduce": (ONE, True)},
    "nccl_alltoall": {"nccl_alltoall": (ONE, True)},
    "nccl_ib_loopback": {"nccl_ib_loopback": (ONE, True)},
    "ib_write_bandwidth": {"ib_write_bandwidth": (PORTS, True)},
    "ib_latency": {"ib_latency": (PORTS, True)},
    "gemm": {"gemm": (GPUS, True)},
    "cpu_stream": {"memory_copy": ([f"node{number}" for number in range(4)], True)},
    "dcgm": {"dcgm_tests_passed": (ONE, False)},
    # The readings of these checks are texts, which are no series.
    **{name: {} for name in ("vm_size", "gpu_identity", "gpu_mig", "ib_addresses", "ib_pkeys", "peer_memory")},
    **{name: {} for name in ("pci_topology", "services", "network", "metadata_service")},
}


def documents(verdict: str = "pass") -> Iterator[dict[str, Any]]:
    """Yield the documents of the runs of all tiers on an ND node."""
    for tier in TIERS:
        checks = tuple(check for check in map(load, NAMES) if tier in check.tiers)
        seconds = 20.0 if tier == DEEP else 0.05
        results = tuple(
            Result(check.name, verdict, "", Answer(readings=tuple(readings(check.name))), seconds=seconds)
            for check in checks
        )
        yield as_document(TierRun(tier, 0.0, 1.0, checks, results), NODE)


def readings(check: str) -> Iterator[Reading]:
    """Yield the readings of a check."""
    for name, (devices, has_limit) in NUMBERS[check].items():
        for device in devices:
            yield Reading(name, 1.5, "", device, 2.0 if has_limit else None)


def series(verdict: str = "pass") -> Series:
    """Return the series that all tiers of a node write; none is written twice."""
    found: Series = {}
    for document in documents(verdict):
        new = parse(prometheus.as_text(document))
        assert not found.keys() & new.keys()
        found.update(new)
    return found


def test_the_table_of_readings_lists_all_checks() -> None:
    assert set(NUMBERS) == set(NAMES)


def test_an_nd_node_writes_at_most_800_series() -> None:
    assert 500 < len(series()) <= MOST


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown", "skip"])
def test_the_verdict_of_each_check_in_each_tier_is_written(verdict: str) -> None:
    written = {labels for name, labels in series(verdict) if name == "hpcai_health_check_verdict"}
    expected = {
        frozenset({("tier", tier), ("check", name), ("verdict", verdict)})
        for name in NAMES
        for tier in load(name).tiers
    }
    assert written == expected


def test_each_reading_and_limit_is_written_once() -> None:
    found = [dict(labels) for name, labels in series() if name == "hpcai_health_reading"]
    written = [(one["check"], one["name"], one["device"]) for one in found]
    expected = [
        (check, name, device)
        for check, names in NUMBERS.items()
        for name, (devices, _has_limit) in names.items()
        for device in devices
    ]
    assert sorted(written) == sorted(expected)
    limits = [(dict(labels)["check"], dict(labels)["name"]) for name, labels in series() if name.endswith("_limit")]
    assert sorted(limits) == sorted(
        (check, name) for check, names in NUMBERS.items() for name, (_devices, has_limit) in names.items() if has_limit
    )


def test_limits_that_differ_by_device_are_written_for_each_device() -> None:
    (document,) = [one for one in documents() if one["tier"] == "periodic"]
    (check,) = [one for one in document["checks"] if one["name"] == "gpu_temperature"]
    for number, reading in enumerate(check["readings"]):
        reading["limit"] = 80 + number
    lines = [
        line for line in prometheus.as_text(document).splitlines() if line.startswith("hpcai_health_reading_limit")
    ]
    assert sum('check="gpu_temperature"' in line for line in lines) == len(GPUS)
