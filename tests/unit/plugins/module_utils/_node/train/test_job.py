# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a job calls: the environment of its ranks, and the checks of its nodes."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import layout_of_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.module_utils._node.train import environment, preflight
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.catalog import MODELS
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.estimate import checkpoint_bytes
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.layout import Job, Layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.plan import Plan, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.preflight import NodeNeeds

A100 = SIZES["Standard_ND96amsr_A100_v4"]
JOB = {"SLURM_JOB_ID": "40007", "SLURM_JOB_NODELIST": "compute-[0-1]"}
INTERFACES = """\
1: lo    inet 127.0.0.1/8 scope host lo
2: eth0    inet 10.0.0.5/24 brd 10.0.0.255 scope global eth0
3: ib0    inet 172.16.1.5/16 scope global ib0
"""


class Machine:
    """Answers commands from a table, by their first words."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        self.answers: dict[str, tuple[int, str]] = {
            "sinfo": (0, "compute-0 10.0.0.5\ncompute-1 10.0.0.6\n"),
            "ip": (0, INTERFACES),
            "python3": (0, ""),
            **answers,
        }

    def __call__(self, words: Sequence[str]) -> Result:
        rc, text = self.answers.get(words[0], (127, ""))
        return Result(tuple(words), rc, text, "")


def test_the_first_node_is_named_by_its_address() -> None:
    found, notes = environment.variables(JOB, Machine(), None, None)
    assert found == {
        "MASTER_ADDR": "10.0.0.5",
        "MASTER_PORT": "25007",
        "GLOO_SOCKET_IFNAME": "eth0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert notes == ["The layout of this machine is unknown: there are no CPU masks."]
    assert environment.exports({"A": "b c"}) == "export A='b c'"


def test_ports_of_two_jobs_differ_and_are_below_the_ephemeral_ones() -> None:
    ports = {
        int(environment.variables({**JOB, "SLURM_JOB_ID": str(job)}, Machine(), None, None)[0]["MASTER_PORT"])
        for job in range(1, 60000, 7)
    }
    assert 15000 <= min(ports) <= max(ports) < 32768


def test_masks_of_the_nodes_are_those_of_hpcnode_pins() -> None:
    found, notes = environment.variables(JOB, Machine(), layout_of_size(A100), None)
    masks = found["HPCAI_CPU_MASKS"].split(",")
    assert notes == []
    assert found["HPCAI_RANKS_PER_NODE"] == "8"
    assert found["HPCAI_CPU_BIND"] == f"--cpu-bind=mask_cpu:{','.join(masks)}"
    # GPUs 0 and 1 are on NUMA node 1, whose CPUs are 24 to 47.
    assert [CpuSet(cpu for cpu in range(96) if int(mask, 16) >> cpu & 1).as_list() for mask in masks[:2]] == [
        "24-35",
        "36-47",
    ]


def test_an_address_on_no_interface_is_said() -> None:
    found, notes = environment.variables(JOB, Machine(ip=(0, "")), None, None)
    assert "GLOO_SOCKET_IFNAME" not in found
    assert "No interface of this machine has the address 10.0.0.5" in notes[0]


@pytest.mark.parametrize("variables", [{}, {"SLURM_JOB_NODELIST": "c-0"}, {**JOB, "SLURM_JOB_ID": "x"}])
def test_outside_of_a_job_there_is_no_environment(variables: dict[str, str]) -> None:
    with pytest.raises(environment.NoJob, match="not a Slurm job"):
        environment.variables(variables, Machine(), None, None)


def test_an_unknown_address_is_an_error() -> None:
    with pytest.raises(environment.NoJob, match="does not know the address of compute-0"):
        environment.variables(JOB, Machine(sinfo=(0, "compute-1 10.0.0.6\n")), None, None)
    with pytest.raises(CommandFailed):
        environment.variables(JOB, Machine(sinfo=(1, "")), None, None)


@pytest.fixture
def wanted(tmp_path: pathlib.Path) -> dict[str, Any]:
    """What a training that can run wants."""
    (tmp_path / "fsdp.py").touch()
    return {
        "node": "compute-0",
        "run": str(tmp_path / "run"),
        "trainer": str(tmp_path / "fsdp.py"),
        "python": "python3",
        "image": "",
        "needs_image": False,
        "data": "",
        "nodes": 2,
    }


def checked(wanted: dict[str, Any], made: Plan | None = None, **answers: tuple[int, str]) -> dict[str, tuple[str, str]]:
    """Return verdicts and words by check."""
    answers = {"sinfo": (0, "compute-0|mixed|none\n"), "hpcnode": (0, "{}"), **answers}
    found = preflight.checks(NodeNeeds(**wanted), made, Machine(**answers))
    return {one.name: (one.verdict, one.words) for one in found}


def test_a_good_node_passes_all_checks(wanted: dict[str, Any]) -> None:
    made = plan(MODELS["1.7B"], Job(2, 8, Layout(zero=3)), A100)
    found = checked({**wanted, "data": str(pathlib.Path(wanted["run"]).parent)}, made)
    needs = found.pop("scratch")
    assert {verdict for verdict, _words in found.values()} == {PASS}, found
    assert "are needed" in needs[1] or "free" in needs[1]


def test_a_failed_health_check_is_named(wanted: dict[str, Any]) -> None:
    document = {"tiers": {"prolog": {"checks": [{"name": "gpu_count", "verdict": "fail"}]}}}
    found = checked(wanted, hpcnode=(1, json.dumps(document)))
    assert found["health"][0] == FAIL
    assert "gpu_count" in found["health"][1]
    assert checked(wanted, hpcnode=(1, "no JSON"))["health"][0] == FAIL


def test_a_drained_node_fails_even_if_its_results_cannot_be_read(wanted: dict[str, Any]) -> None:
    found = checked(wanted, sinfo=(0, "compute-0|draining|hpcai: gpu_count\n"), hpcnode=(2, ""))
    assert found["health"] == (FAIL, "compute-0 is drained: draining (hpcai: gpu_count)")


def test_a_user_who_cannot_read_the_results_learns_that_the_node_is_not_drained(wanted: dict[str, Any]) -> None:
    assert checked(wanted, hpcnode=(2, ""))["health"] == (PASS, "compute-0 is not drained")


def test_without_an_answer_of_slurmctld_the_health_is_unknown(wanted: dict[str, Any]) -> None:
    unknown = (UNKNOWN, "the health of this node is unknown")
    assert checked(wanted, sinfo=(1, ""), hpcnode=(2, ""))["health"] == unknown
    outside = {**wanted, "node": ""}
    assert checked(outside, hpcnode=(2, ""))["health"][0] == UNKNOWN


def test_a_plan_that_does_not_fit_fails(wanted: dict[str, Any]) -> None:
    made = plan(MODELS["175B"], Job(1, 8, Layout(zero=3)), A100)
    verdict, words = checked(wanted, made)["plan"]
    assert verdict == FAIL
    assert words.startswith("it does not fit on 1 x Standard_ND96amsr_A100_v4: A GPU needs")


def test_too_little_disk_for_the_checkpoints_fails(wanted: dict[str, Any]) -> None:
    made = plan(MODELS["2T"], Job(128, 8, Layout(zero=3, offload_optimizer=True, offload_activations=True), 8), A100)
    verdict, words = checked(wanted, made)["scratch"]
    assert verdict == FAIL
    assert "3 checkpoints need" in words


def test_checkpoints_of_earlier_runs_count_as_space_for_those_that_are_kept(
    wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(MODELS["1.7B"], Job(2, 8, Layout(zero=3)), A100)
    one = int(checkpoint_bytes(made.model) / 2) + 1
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=2 * one, f_frsize=1))
    assert checked(wanted, made)["scratch"][0] == FAIL
    folder = pathlib.Path(wanted["run"]) / "step10"
    folder.mkdir(parents=True)
    with (folder / "model.pt").open("wb") as file:
        file.truncate(one)
    assert checked(wanted, made)["scratch"][0] == PASS
    # One more is always written.
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=one // 2, f_frsize=1))
    with (folder / "model.pt").open("wb") as file:
        file.truncate(3 * one)
    assert checked(wanted, made)["scratch"][0] == FAIL


def test_a_node_needs_room_for_all_that_it_writes(wanted: dict[str, Any]) -> None:
    model = MODELS["1.7B"]
    divided, whole = (plan(model, Job(2, 8, layout), A100) for layout in (Layout(zero=3), Layout()))
    each = f"{3 * 14 * model.parameters / 2**30:,.1f} GiB"
    half = f"{3 * 14 * model.parameters / 2 / 2**30:,.1f} GiB"
    assert half in checked(wanted, divided)["scratch"][1]
    assert each in checked(wanted, whole)["scratch"][1]
    assert each in checked({**wanted, "sharded": False}, whole)["scratch"][1]


def test_a_folder_that_cannot_be_written_fails(wanted: dict[str, Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    assert checked({**wanted, "run": str(tmp_path / "file/run")})["scratch"][0] == FAIL


def test_a_missing_trainer_or_interpreter_fails(wanted: dict[str, Any]) -> None:
    assert "role hpcai.azure.training" in checked({**wanted, "trainer": "/nothing.py"})["trainer"][1]
    assert checked(wanted, python3=(127, ""))["trainer"][0] == FAIL


@pytest.mark.parametrize(
    ("image", "needs", "verdict"),
    [
        ("", False, PASS),
        ("", True, FAIL),
        ("nvcr.io/nvidia/pytorch:25.01-py3", False, FAIL),
        ("nvcr.io/nvidia/pytorch@sha256:" + "a" * 64, True, PASS),
        ("nvcr.io/nvidia/pytorch@sha256:" + "a" * 63, True, FAIL),
        ("/nothing.sqsh", False, FAIL),
        (__file__, False, PASS),
    ],
)
def test_an_image_needs_a_digest_or_is_a_file(wanted: dict[str, Any], image: str, needs: bool, verdict: str) -> None:
    assert checked({**wanted, "image": image, "needs_image": needs})["image"][0] == verdict


def test_an_image_file_must_have_its_digest(wanted: dict[str, Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.sqsh"
    file.write_bytes(b"image")
    digest = hashlib.sha256(b"image").hexdigest()
    assert checked({**wanted, "image": f"{file}@sha256:{digest}"})["image"] == (PASS, f"{file} has its digest")
    verdict, words = checked({**wanted, "image": f"{file}@sha256:{'0' * 64}"})["image"]
    assert (verdict, words.partition(":")[0]) == (FAIL, f"{file} has the SHA-256 {digest}, not {'0' * 64}")
    assert checked({**wanted, "image": f"{file}@sha256:{digest[1:]}"})["image"][0] == FAIL
    file.unlink()
    assert checked({**wanted, "image": f"{file}@sha256:{digest}"})["image"][0] == FAIL


@pytest.mark.parametrize(
    ("rc", "staged", "verdict"),
    [(0, False, PASS), (1, False, FAIL), (2, False, UNKNOWN), (0, True, PASS), (1, True, UNKNOWN)],
)
def test_data_are_compared_with_their_manifest(wanted: dict[str, Any], rc: int, staged: bool, verdict: str) -> None:
    data = str(pathlib.Path(wanted["trainer"]).parent)
    assert checked({**wanted, "data": data, "staged": staged}, hpcnode=(rc, ""))["data"][0] == verdict


def test_data_are_there_or_are_staged_later(wanted: dict[str, Any]) -> None:
    staged = {**wanted, "data": "/nothing", "staged": True}
    assert checked(staged)["data"] == (UNKNOWN, "/nothing is not staged yet")
    verdict, words = checked({**wanted, "data": "/nothing"})["data"]
    assert verdict == FAIL
    assert words.startswith("/nothing is missing on this node")


def test_the_worst_verdict_counts() -> None:
    checks = [preflight.Check("a", one, "") for one in (PASS, UNKNOWN, FAIL)]
    assert [preflight.verdict(checks[:count]) for count in (1, 2, 3)] == [PASS, UNKNOWN, FAIL]
