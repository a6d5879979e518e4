# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode health: what it answers, how it exits, and what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import health, main
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog, state
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    TIERS,
    UNKNOWN,
    Answer,
    Check,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import send as send_module
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

BOOT_ID = "11111111-2222-3333-4444-555555555555"
GOOD = Answer("8 GPUs", readings=(Reading("gpus", 8, limit=8.0),))
LOST = Answer(findings=(Finding(FAIL, "7 of 8 GPUs", "0003:00:00.0", fault="NHC2009", latch=True),))
UNSURE = Answer(findings=(Finding(UNKNOWN, "no tool"),))
Hpcnode = Callable[..., "tuple[int, str, str]"]


class Here(Root):
    """A tree that says of itself that it is this machine."""

    is_this_machine = True

    def at(self, path: str) -> str:
        return os.path.join(self.path, path.lstrip("/"))


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """This machine's root: a node of a known size."""
    files = {
        "proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n",
        "etc/hpcai/node.json": '{"schema": 1, "vm_size": "nd96asr_v4"}',
        "etc/hpcai/slurmd.env": 'SLURMD_OPTIONS="-N batch-7 --conf-server ctl"\n',
        "var/lib/hpcai/instance.json": '{"schema": 1, "vm_id": "5f3c", "vm_size": "Standard_ND96asr_v4"}',
        "etc/ansible/facts.d/hpcai_image.fact": '{"version": "0.1.0"}',
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    pool = tmp_path / "var/lib/hyperv/.kvp_pool_3"
    pool.parent.mkdir()
    pool.write_bytes(b"PhysicalHostName".ljust(512, b"\0") + b"SN1PPF2B0E1234".ljust(2048, b"\0"))
    monkeypatch.setattr(health, "Root", lambda path: Here(str(tmp_path)) if path == "/" else Root(path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have these checks: what they answer by name, and further words of their manifests."""

    def install(answers: dict[str, Any], **given: Any) -> None:
        def check(name: str) -> Check:
            what = answers[name]
            manifest = {"tiers": TIERS, "limit_s": 20.0, **given}
            return Check(
                name, f"Looks at {name}", "Measures.", measure=what if callable(what) else lambda _c: what, **manifest
            )

        monkeypatch.setattr(catalog, "NAMES", tuple(answers))
        monkeypatch.setattr(catalog, "PROLOG_NAMES", frozenset(answers))
        monkeypatch.setattr(health, "NAMES", tuple(answers))
        monkeypatch.setattr(catalog, "load", check)

    return install


@pytest.fixture
def hpcnode(capsys: pytest.CaptureFixture[str]) -> Hpcnode:
    """Run hpcnode health, and return its exit status and what it says."""

    def call(*words: str) -> tuple[int, str, str]:
        status = main.main(["health", *words])
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("answers", "tier", "status", "verdict"),
    [
        ({"a": GOOD}, "periodic", 0, "pass"),
        ({"a": GOOD, "b": UNSURE}, "periodic", 2, "unknown"),
        ({"a": UNSURE, "b": LOST}, "periodic", 1, "fail"),
        ({"a": UNSURE, "b": LOST}, "prolog", 0, "fail"),
        ({"a": Answer(skipped="none")}, "boot", 2, "skip"),
        ({"a": Answer(skipped="none"), "b": GOOD}, "boot", 0, "pass"),
    ],
)
def test_a_run_answers_with_one_document(
    have: Any, hpcnode: Hpcnode, answers: Any, tier: str, status: int, verdict: str
) -> None:
    have(answers)
    code, output, complained = hpcnode("run", tier, "--json")
    document = json.loads(output)
    assert (code, document["status"], document["verdict"], complained) == (status, status, verdict, "")
    assert (document["schema"], document["command"], document["tier"]) == (1, "health", tier)
    assert [check["name"] for check in document["checks"]] == list(answers)


def test_the_document_tells_which_machine_it_is(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    have({"gpu_count": LOST})
    _code, output, _complained = hpcnode("run", "periodic", "--json")
    document = json.loads(output)
    assert document["node"] == {
        "name": "batch-7",
        "vm_id": "5f3c",
        "vm_size": "Standard_ND96asr_v4",
        "host": "SN1PPF2B0E1234",
        "boot_id": BOOT_ID,
        "image": "0.1.0",
        "collection": "0.2.0",
    }
    (check,) = document["checks"]
    assert check.keys() == {
        "name",
        "verdict",
        "summary",
        "hint",
        "action",
        "fault",
        "cause",
        "seconds",
        "latched",
        "limit",
        "findings",
        "readings",
    }
    assert (check["summary"], check["fault"], check["findings"][0]["device"]) == (
        "7 of 8 GPUs",
        "NHC2009",
        "0003:00:00.0",
    )
    kept = json.loads((folder / "run/hpcai/health/periodic.json").read_text(encoding="utf-8"))
    assert kept == document


def test_a_machine_that_is_nobodys_has_empty_words(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    for name in ("etc/hpcai/slurmd.env", "var/lib/hyperv/.kvp_pool_3", "var/lib/hpcai/instance.json"):
        (folder / name).unlink()
    have({"a": GOOD})
    node = json.loads(hpcnode("run", "periodic", "--json")[1])["node"]
    assert (node["name"], node["host"], node["vm_id"]) == ("", "", "")


@pytest.mark.usefixtures("folder")
def test_a_prolog_fails_only_for_what_a_job_must_not_meet(have: Any, hpcnode: Hpcnode) -> None:
    have({"gpu_count": LOST}, blocks_job=True)
    assert hpcnode("run", "prolog")[0] == 1
    have({"gpu_count": UNSURE}, blocks_job=True)
    assert hpcnode("clear")[0] == 0
    assert hpcnode("run", "prolog")[0] == 0


def test_a_prolog_with_broken_settings_drains_nobody(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    (folder / "etc/hpcai/health.json").write_text("{", encoding="utf-8")
    have({"gpu_count": LOST}, blocks_job=True)
    code, output, _complained = hpcnode("run", "prolog")
    assert code == 0
    assert "health.json is not valid JSON" in output
    assert hpcnode("run", "periodic")[0] == 2


def test_on_a_size_that_nobody_knows_no_run_is_good(folder: pathlib.Path, hpcnode: Hpcnode, have: Any) -> None:
    (folder / "etc/hpcai/node.json").write_text('{"schema": 1, "vm_size": "Standard_NX1"}', encoding="utf-8")
    from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import vm_size

    have({"vm_size": vm_size.measure})
    code, output, _complained = hpcnode("run", "periodic")
    assert code == 2
    assert "VM size 'Standard_NX1' is not known" in output


@pytest.mark.usefixtures("folder")
def test_a_run_for_people_is_one_line_a_check(have: Any, hpcnode: Hpcnode) -> None:
    have({"gpu_count": LOST, "scratch": GOOD})
    output = hpcnode("run", "periodic")[1].splitlines()
    assert len(output) == 3
    assert output[0].startswith("gpu_count: fail (")
    assert output[2].startswith("periodic: fail: 2 checks, 1 fail (")


def test_only_some_checks_are_run_and_leave_the_record_alone(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    have({"a": GOOD, "b": LOST, "c": GOOD})
    output = json.loads(hpcnode("run", "periodic", "--only", "c", "--only", "b", "--json")[1])
    assert [check["name"] for check in output["checks"]] == ["b", "c"]
    assert not (folder / "run/hpcai/health/periodic.json").exists()
    assert hpcnode("run", "periodic", "--only", "b")[0] == 1


@pytest.mark.usefixtures("folder")
def test_the_job_is_that_of_slurm_or_as_told(have: Any, hpcnode: Hpcnode, monkeypatch: pytest.MonkeyPatch) -> None:
    have({"a": lambda context: Answer(f"job {context.job}", readings=(Reading("n", 1),))})
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    assert "job 42." in hpcnode("run", "epilog")[1]
    assert "job 7." in hpcnode("run", "epilog", "--job", "7")[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "say what to do"),
        (("run",), "say which tier"),
        (("run", "hourly"), "there is no tier hourly"),
        (("run", "prolog", "deep"), "one tier at a time"),
        (("run", "prolog", "--only", "x"), "there is no check x: the checks are a"),
        (("run", "prolog", "--tier", "deep"), "--tier goes with list"),
        (("list", "a"), "unrecognized arguments: a"),
        (("status", "--only", "a"), "--only goes with run, not with status"),
        (("status", "hourly"), "there is no tier hourly"),
        (("status", "--list"), "--list goes with list, not with status"),
        (("clear", "x"), "there is no check x"),
        (("run", "prolog", "--root", "/proc"), "works on the running machine only"),
    ],
)
def test_words_that_make_no_sense_are_refused(have: Any, hpcnode: Hpcnode, words: Any, message: str) -> None:
    have({"a": GOOD})
    code, _output, complained = hpcnode(*words)
    assert code == 3
    assert message in complained


@pytest.mark.usefixtures("folder")
def test_a_run_shows_which_check_is_running(have: Any, hpcnode: Hpcnode, monkeypatch: pytest.MonkeyPatch) -> None:
    have({"a": GOOD, "b": GOOD})
    shown: list[Any] = []
    counted = contextlib.nullcontext(lambda *step: shown.append(step))
    monkeypatch.setattr(health, "counter", lambda *_given: counted)
    hpcnode("run", "periodic")
    assert shown == [("a", 1, 2), ("b", 2, 2)]


@pytest.mark.usefixtures("folder")
def test_a_check_of_another_tier_is_refused(have: Any, hpcnode: Hpcnode) -> None:
    have({"a": GOOD}, tiers=("deep",))
    assert "a is not in tier prolog" in hpcnode("run", "prolog", "--only", "a")[2]
    code, _output, complained = hpcnode("run", "prolog")
    assert code == 3
    assert "tier prolog has no checks" in complained


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("list",), ("--list",), ("list", "--tier", "deep"), ("--list", "--tier", "deep")])
def test_the_checks_are_listed_with_their_limits(have: Any, hpcnode: Hpcnode, words: Any) -> None:
    have({"a": GOOD, "b": GOOD}, thresholds=("gpu_host_bandwidth",))
    code, output, _complained = hpcnode(*words)
    assert code == 0
    assert "a: Looks at a\n    Measures.\n" in output
    assert "limit gpu_host_bandwidth: at least 21 GB/s (azurehpc-health-checks, conf/<size>.conf)" in output
    listed = json.loads(hpcnode(*words, "--json")[1])
    assert [check["name"] for check in listed["checks"]] == ["a", "b"]
    assert listed["vm_size"] == "Standard_ND96asr_v4"


@pytest.mark.usefixtures("folder")
def test_a_list_of_one_tier_has_no_others(have: Any, hpcnode: Hpcnode) -> None:
    have({"a": GOOD}, tiers=("deep",))
    assert json.loads(hpcnode("list", "--tier", "prolog", "--json")[1])["checks"] == []


def test_a_list_says_what_cannot_be_used(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    have({"a": GOOD})
    (folder / "etc/hpcai/health.json").write_text('{"schema": 1, "off": ["x"]}', encoding="utf-8")
    code, _output, complained = hpcnode("list")
    assert code == 2
    assert "there is no check x" in complained


@pytest.mark.usefixtures("folder")
def test_the_status_is_that_of_the_last_runs(have: Any, hpcnode: Hpcnode) -> None:
    have({"a": GOOD, "b": LOST})
    code, output, _complained = hpcnode("status")
    assert (code, "periodic: not run in this boot" in output) == (2, True)
    hpcnode("run", "periodic")
    code, output, _complained = hpcnode("status")
    assert code == 1
    assert "periodic: fail at 2" in output
    assert "    b: fail: 7 of 8 GPUs" in output
    assert "latched: b: 7 of 8 GPUs" in output
    assert "    a:" not in output
    assert hpcnode("status", "prolog")[0] == 2
    document = json.loads(hpcnode("status", "periodic", "--json")[1])
    assert (list(document["tiers"]), document["latched"]) == (["periodic"], {"b": ["7 of 8 GPUs"]})
    have({"a": GOOD})
    hpcnode("run", "periodic")
    assert hpcnode("status")[0] == 0


def test_a_record_of_another_boot_is_none(folder: pathlib.Path, have: Any, hpcnode: Hpcnode) -> None:
    have({"a": LOST})
    hpcnode("run", "periodic")
    (folder / "proc/sys/kernel/random/boot_id").write_text("another\n", encoding="utf-8")
    code, output, _complained = hpcnode("status")
    assert (code, "periodic: not run in this boot" in output, "latched" in output) == (2, True, False)


@pytest.mark.usefixtures("folder")
def test_what_is_cleared_fails_no_more(have: Any, hpcnode: Hpcnode) -> None:
    have({"a": LOST, "b": LOST})
    hpcnode("run", "periodic")
    have({"a": GOOD, "b": GOOD})
    assert hpcnode("run", "periodic")[0] == 1
    assert hpcnode("clear", "a")[1] == "cleared a: 7 of 8 GPUs\n"
    output = json.loads(hpcnode("run", "periodic", "--json")[1])
    assert [check["verdict"] for check in output["checks"]] == ["pass", "fail"]
    assert hpcnode("clear")[1] == "cleared b: 7 of 8 GPUs\n"
    assert hpcnode("run", "periodic")[0] == 0
    assert hpcnode("clear")[1] == "nothing was latched\n"


def test_prometheus_gets_a_file_where_there_is_a_folder_for_it(
    folder: pathlib.Path, have: Any, hpcnode: Hpcnode
) -> None:
    have({"a": GOOD})
    hpcnode("run", "periodic")
    metrics = folder / "var/lib/prometheus/node-exporter"
    assert not metrics.exists()
    metrics.mkdir(parents=True)
    hpcnode("run", "periodic", "--only", "a")
    assert not list(metrics.iterdir()), "a part of the checks is not the tier"
    hpcnode("run", "periodic")
    (file,) = metrics.iterdir()
    text = file.read_text(encoding="utf-8")
    assert 'hpcai_health_reading{tier="periodic",check="a",name="gpus",device="",unit=""} 8\n' in text
    assert 'host="SN1PPF2B0E1234"' in text


def test_a_record_that_cannot_be_written_is_said_and_no_older_one_is_left(
    folder: pathlib.Path, have: Any, hpcnode: Hpcnode
) -> None:
    have({"a": GOOD})
    hpcnode("run", "periodic")
    record = folder / "run/hpcai/health/periodic.json"
    record.unlink()
    record.mkdir()
    code, _output, complained = hpcnode("run", "periodic")
    assert code == 0
    assert "cannot write the record" in complained


@pytest.mark.usefixtures("folder")
def test_a_locked_memory_is_not_cleared_in_silence(
    have: Any, hpcnode: Hpcnode, monkeypatch: pytest.MonkeyPatch
) -> None:
    have({"a": GOOD})
    monkeypatch.setattr(state, "_LOCK_S", 0.0)
    with state.changes(health.Root("/")):
        code, _output, complained = hpcnode("clear")
    assert code == 1
    assert "holds" in complained


@pytest.mark.parametrize(("known", "status"), [(True, 0), (False, 2)])
def test_a_report_tells_whether_slurmctld_has_it(
    monkeypatch: pytest.MonkeyPatch, hpcnode: Hpcnode, known: bool, status: int
) -> None:
    monkeypatch.setattr(send_module, "send", lambda *_given: send_module.Sent(known, "words"))
    assert hpcnode("report")[:2] == (status, "words\n")


@pytest.mark.parametrize(
    "words",
    [("report", "--root", "/usr"), ("prolog", "--root", "/usr"), ("run", "prolog", "--within", "3"), ("report", "x")],
)
def test_what_makes_no_sense_on_a_node_is_refused(hpcnode: Hpcnode, words: tuple[str, ...]) -> None:
    assert hpcnode(*words)[0] == 3
