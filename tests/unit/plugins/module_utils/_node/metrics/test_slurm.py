# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics of Slurm: counts, reasons and times from its own records, and nothing from text of users."""

from __future__ import annotations

import json
import pathlib
import re
import time
import tracemalloc
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.exposition import Metrics, as_text
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import slurm
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.serve import slurm_text
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState

NODES = (
    "NodeName=gpu-{0} Gres={1} NodeAddr=10.0.0.{0} NodeHostName=gpu-{0} State={2} Partitions=gpu"
    " BootTime=2026-11-20T10:00:00{3}\n"
)
SDIAG = """\
Server thread count:  3
Agent queue size:     7
DBD Agent queue size: 12

Main schedule statistics (microseconds):
\tLast cycle:   1500
\tMean cycle:   1400
\tLast queue length: 4

Backfilling stats
\tLast cycle: 2600
\tMean cycle: 2500

Remote Procedure Call statistics by user
\tmallory         (    1000) count:90     ave_time:1      total_time:1
\tLast cycle: 99999999
"""


def answers(nodes: str = "", jobs: str = "", **more: object) -> slurm.Answers:
    """What Slurm's commands print."""
    return slurm.Answers(nodes, jobs, **more)  # type: ignore[arg-type]


def text_of(given: slurm.Answers) -> str:
    """The text of the metrics."""
    metrics = Metrics(slurm.HELP)
    slurm.add_to(metrics, given)
    return as_text(metrics)


def lines_of(text: str, name: str) -> list[str]:
    """The samples of a metric."""
    return [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]


@pytest.mark.parametrize(
    ("states", "reason", "expected"),
    [
        ("IDLE", "", "idle"),
        ("MIXED", "", "mixed"),
        ("ALLOCATED+COMPLETING", "", "completing"),
        ("IDLE+DRAIN", "x", "drained"),
        ("ALLOCATED+DRAIN", "x", "draining"),
        ("DOWN+NOT_RESPONDING", "Not responding", "down"),
        ("IDLE+NOT_RESPONDING", "", "down"),
        ("IDLE+CLOUD+POWERED_DOWN", "", "powered_down"),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "", "powering_up"),
        ("IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", "", "powering_up"),
        ("DOWN+CLOUD+NOT_RESPONDING+POWERING_UP", "ResumeTimeout reached", "down"),
        ("ALLOCATED+CLOUD+DRAIN+NOT_RESPONDING+POWERING_UP", "x", "draining"),
        ("IDLE+MAINT+RESERVED", "", "reserved"),
        ("DOWN+CLOUD", "hpcai: no such instance", "absent"),
        ("FUTURE", "", "absent"),
        ("BLOCKED", "", "other"),
    ],
)
def test_each_node_has_one_state(states: str, reason: str, expected: str) -> None:
    assert slurm.state_of(NodeState("gpu-1", tuple(states.split("+")), reason)) == expected


def test_nodes_are_counted_and_those_without_a_machine_are_left_out() -> None:
    nodes = NODES.format(1, "gpu:8", "IDLE", "") + NODES.format(2, "gpu:8", "ALLOCATED", "")
    nodes += NODES.format(3, "gpu:8", "DOWN+CLOUD", " Reason=hpcai: no such instance [root@2026-11-20T10:00:00]")
    text = text_of(answers(nodes))
    assert 'hpcai_slurm_nodes{set="gpu",state="idle"} 1' in text
    assert 'hpcai_slurm_nodes{set="gpu",state="down"} 0' in text
    assert "hpcai_slurm_node_out" not in text


def test_a_node_whose_machine_boots_is_not_out() -> None:
    text = text_of(answers(NODES.format(1, "gpu:8", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "")))
    assert "hpcai_slurm_node_out" not in text
    assert 'hpcai_slurm_nodes{set="gpu",state="powering_up"} 1' in text


def test_durations_are_slurms_own_so_that_a_restart_resets_none() -> None:
    drained = " Reason=disk is full [alice@2026-11-20T10:00:00]"
    given = answers(NODES.format(1, "gpu:8", "IDLE+DRAIN", drained))
    first, again = text_of(given), text_of(given)
    assert first == again
    assert 'hpcai_slurm_node_out_since_seconds{node="gpu-1"} 1795168800' in first
    assert lines_of(first, "hpcai_slurm_node_out") == [
        'hpcai_slurm_node_out{node="gpu-1",set="gpu",state="drained",reason="disk is full"} 1'
    ]


def test_text_in_labels_is_escaped_and_bounded() -> None:
    hostile = 'a"} 1\\ NodeName=x State=IDLE \x07' + "b" * 500
    text = text_of(answers(NODES.format(1, "gpu:8", "IDLE+DRAIN", f" Reason={hostile} [root@2026-11-20T10:00:00]")))
    (line,) = lines_of(text, "hpcai_slurm_node_out")
    assert 'reason="a\\"} 1\\\\' in line
    assert line.endswith('..."} 1')
    assert len(line) < 300
    assert "\x07" not in line
    assert 'node="x"' not in text


def test_jobs_are_counted_and_a_forged_line_is_ignored() -> None:
    jobs = "1|alice|RUNNING|gpu|2026-11-20T10:00:00|2026-11-20T10:05:00|None|gpu-[1-2]\n"
    jobs += "2|bob|PENDING|gpu,long|2026-11-20T09:00:00|N/A|Resources|\n"
    jobs += "3|bob|PENDING|gpu|2026-11-20T08:00:00|N/A|ReqNodeNotAvail, UnavailableNodes:gpu-3|\n"
    jobs += "4|mallory|RUNNING|gpu|x|y|None|gpu-1|gpu-2\nnothing\n"
    text = text_of(answers(NODES.format(1, "(null)", "ALLOCATED", ""), jobs))
    assert 'hpcai_slurm_jobs{partition="gpu",state="running"} 1' in text
    assert 'hpcai_slurm_jobs{partition="gpu",state="pending"} 2' in text
    assert 'hpcai_slurm_jobs_pending{reason="ReqNodeNotAvail"} 1' in text
    assert 'hpcai_slurm_pending_since_seconds{partition="gpu"} 1795161600' in text
    assert 'hpcai_job_info{job_id="1",node="gpu-2",gpu="",user="alice",partition="gpu"} 1' in text
    assert 'hpcai_job_start_seconds{job_id="1"} 1795169100' in text
    assert "mallory" not in text


def test_the_series_of_reasons_are_bounded() -> None:
    jobs = "".join(f"{n}|a|PENDING|p|2026-11-20T09:00:00|N/A|Reason{n}|\n" for n in range(100))
    assert len(lines_of(text_of(answers("NodeName=n1 State=IDLE\n", jobs)), "hpcai_slurm_jobs_pending")) == 30


def job_json(**more: object) -> dict[str, object]:
    """A job as scontrol's JSON has it; the name is what a user chose."""
    forged = 'x" Nodes=gpu-9 GRES=gpu:8(IDX:0-7)'
    return {
        "job_id": 7,
        "name": forged,
        "nodes": "gpu-[1-2]",
        "gres_detail": ["gpu:h100:2(IDX:0,3)", "gpu:8(IDX:0-7)"],
        **more,
    }


def test_gpus_of_jobs_come_from_slurms_json() -> None:
    shown = json.dumps({"jobs": [job_json(), {"job_id": 8, "nodes": "gpu-1", "gres_detail": []}, {"job_id": "9"}, 3]})
    assert slurm.gpus_of_jobs(shown.encode()) == {(7, "gpu-1"): (0, 3), (7, "gpu-2"): tuple(range(8))}


def test_invalid_text_of_a_user_or_a_warning_hides_no_gpus() -> None:
    shown = json.dumps({"jobs": [job_json(comment="PLACE")]}).encode().replace(b"PLACE", b"\xff\xfe")
    for text in (shown, b"scontrol: warning: x\n" + shown):
        assert set(slurm.gpus_of_jobs(text)) == {(7, "gpu-1"), (7, "gpu-2")}


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_gpus_are_those_that_a_real_slurmctld_gave(release: str) -> None:
    """Job 3 has two GPUs on each of two nodes, job 4 has the third one of a node, and job 5 has none."""
    shown = (pathlib.Path(__file__).parent / "forms" / f"jobs-{release}.json").read_bytes()
    assert slurm.gpus_of_jobs(shown) == {
        (3, "compute-0"): (0, 1),
        (3, "compute-1"): (0, 1),
        (4, "compute-1"): (2,),
    }


def test_other_resources_and_a_node_without_gpus_are_no_gpus() -> None:
    texts = ["shard:h100:4(0/8,4/8),gpu:a100:1(IDX:5),gpu:h100:2(IDX:0-1)", None, "gpu:a100:0(IDX:)", "gpu(CNT:2)"]
    shown = json.dumps({"jobs": [job_json(nodes="gpu-[1-4]", gres_detail=texts)]})
    assert slurm.gpus_of_jobs(shown.encode()) == {(7, "gpu-1"): (5, 0, 1)}


@pytest.mark.parametrize("shown", ["", "[]", "{}", '{"jobs": 1}'])
def test_an_answer_without_jobs_is_an_error(shown: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        slurm.gpus_of_jobs(shown.encode())


def test_a_gpu_has_a_series_of_its_job() -> None:
    given = answers(
        NODES.format(1, "gpu:8", "ALLOCATED", ""),
        "7|alice|RUNNING|gpu|2026-11-20T10:00:00|2026-11-20T10:05:00|None|gpu-1\n",
        gpus={(7, "gpu-1"): (0, 3)},
    )
    found = lines_of(text_of(given), "hpcai_job_info")
    assert [re.findall(r'gpu="(\d*)"', line) for line in found] == [["0"], ["3"]]


def test_figures_of_sdiag_are_of_their_section() -> None:
    found = slurm.parse_sdiag(SDIAG)
    assert found["agent_queue"] == 7
    assert found["dbd_queue"] == 12
    assert (found["cycle_last_us"], found["backfill_last_us"]) == (1500, 2600)
    assert found["queue_length"] == 4


class Commands:
    """Slurm's commands, of which some fail; records what was run."""

    def __init__(self, **outputs: str | None) -> None:
        self.outputs, self.ran = {"config": "PrivateData = none\n", **outputs}, []  # type: ignore[var-annotated]

    def __call__(self, command: Sequence[str]) -> Result:
        words = list(command)
        assert words[:2] == ["timeout", "--kill-after=1"], "each command has a limit"
        words = words[3:]
        self.ran.append(words)
        key = next((word.lstrip("-") for word in words if word in ("--json", "--version", "config")), words[0])
        found = self.outputs.get(key)
        return Result(tuple(command), 0 if found is not None else 1, found or "", "" if found else "down")


def test_slurmctld_away_is_reported_and_nothing_else_is_asked() -> None:
    run = Commands()
    found = slurm.ask(run, accounting=True)
    assert [words[0] for words in run.ran] == ["scontrol", "sacctmgr"]
    text = slurm_text(Root("/nonexistent"), found, time.monotonic(), 0)
    assert 'hpcai_slurm_up{daemon="slurmctld"} 0' in text
    assert 'hpcai_slurm_up{daemon="slurmdbd"} 0' in text
    # Not zero nodes, but none known.
    assert "hpcai_slurm_nodes{" not in text
    assert 'hpcai_metrics_problems{part="slurm"} 2' in text


def test_slurmdbd_away_leaves_the_rest() -> None:
    found = slurm.ask(Commands(scontrol=NODES.format(1, "gpu:8", "IDLE", ""), squeue="", sdiag=SDIAG), accounting=True)
    text = text_of(found)
    assert 'hpcai_slurm_up{daemon="slurmctld"} 1' in text
    assert 'hpcai_slurm_up{daemon="slurmdbd"} 0' in text
    assert 'state="idle"} 1' in text


def test_a_cluster_without_gpus_or_accounting_is_not_asked_for_them() -> None:
    run = Commands(scontrol=NODES.format(1, "(null)", "IDLE", ""), squeue="1|a|RUNNING|p|x|y|None|gpu-1\n", sdiag="")
    found = slurm.ask(run, accounting=False)
    assert [words[0] for words in run.ran] == ["scontrol", "squeue", "sdiag", "scontrol"]
    assert found.slurmdbd is None
    assert 'daemon="slurmdbd"' not in text_of(found)


@pytest.mark.parametrize(
    ("config", "users"),
    [
        ("PrivateData             = none\n", ["alice"]),
        ("PreemptType = x\nPrivateData             = cloud,nodes\nPrologFlags = Alloc\n", ["alice"]),
        ("PrivateData             = accounts,jobs\n", [""]),
        ("PrivateData             = users\n", [""]),
        # Not known.
        (None, [""]),
        ("Configuration data as of 2026\n", [""]),
    ],
)
def test_users_are_not_named_where_they_do_not_see_each_others_jobs(config: str | None, users: list[str]) -> None:
    """Every user can read the metrics at the port of the controller's exporter."""
    job = "7|alice|RUNNING|gpu|2026-11-20T10:00:00|2026-11-20T10:05:00|None|gpu-1\n"
    run = Commands(scontrol=NODES.format(1, "(null)", "ALLOCATED", ""), squeue=job, sdiag="", config=config)
    text = text_of(slurm.ask(run, accounting=False))
    assert re.findall(r'user="(\w*)"', text) == users
    assert 'hpcai_job_info{job_id="7",node="gpu-1"' in text


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        ("22.05.8", ("squeue", "--json")),
        ("23.02.0", ("scontrol", "--details", "--json", "show", "jobs")),
        ("24.11.5", ("scontrol", "--details", "--json", "show", "jobs")),
    ],
)
def test_the_command_for_gpus_depends_on_the_release(version: str, asked: tuple[str, ...]) -> None:
    nodes = NODES.format(1, "gpu:8(S:0-1)", "ALLOCATED", "")
    shown = json.dumps({"jobs": [job_json()]})
    job = "7|a|RUNNING|p|x|y|None|gpu-1\n"
    run = Commands(scontrol=nodes, squeue=job, sdiag="", version=f"slurm-wlm {version}")
    ran: list[list[str]] = []

    def answer(words: Sequence[str]) -> bytes:
        ran.append(list(words))
        return shown.encode()

    assert slurm.ask(run, False, answer).gpus[7, "gpu-1"] == (0, 3)
    assert ran == [list(asked)]
    broken = slurm.ask(run, False, lambda words: b"{}")
    assert broken.gpus == {}
    assert "not known" in broken.problems[0]
    assert slurm.ask(Commands(scontrol=nodes, squeue="", sdiag=""), False, lambda words: b"not asked").problems == ()


def test_an_answer_about_jobs_that_is_too_large_is_not_read(tmp_path: pathlib.Path) -> None:
    """Users choose its size, and the service with the alerts about Slurm would run out of memory."""
    assert slurm.read_json(["echo", "{}"]) == b"{}\n"
    endless = ["sh", "-c", f"trap '' PIPE; yes xxxxxxx | head -c 50000000; touch {tmp_path}/finished"]
    with pytest.raises(CommandFailed, match="printed more than 1 MiB"):
        slurm.read_json(endless, 1 << 20)
    assert not (tmp_path / "finished").exists()
    with pytest.raises(CommandFailed, match="exit status 1"):
        slurm.read_json(["false"])
    with pytest.raises(CommandFailed, match="No such file"):
        slurm.read_json(["/nonexistent"])


def test_texts_of_jobs_take_no_memory_while_their_gpus_are_read() -> None:
    """A job of scontrol's JSON has some hundred keys."""
    long = {f"key{number}": {"set": True, "number": number, "text": "x" * 20} for number in range(100)}
    shown = json.dumps({"jobs": [{**job_json(), **long} for _job in range(300)]}).encode()
    tracemalloc.start()
    try:
        slurm.gpus_of_jobs(shown)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(shown)
    finally:
        tracemalloc.stop()


def test_samples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ansible_collections.hpcai.azure.plugins.module_utils._node.machine.exposition.MOST_SAMPLES", 10
    )
    metrics = Metrics({"hpcai_x": "X."})
    for number in range(25):
        metrics.add("hpcai_x", number, n=str(number))
    assert metrics.dropped == 15
    assert len(as_text(metrics).splitlines()) == 12


def test_of_too_many_jobs_those_with_gpus_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ansible_collections.hpcai.azure.plugins.module_utils._node.machine.exposition.MOST_SAMPLES", 10
    )
    jobs = "".join(f"{job}|mallory|RUNNING|gpu|x|2026-11-20T10:05:00|None|gpu-1\n" for job in range(1, 30))
    jobs += "77|alice|RUNNING|gpu|x|2026-11-20T10:05:00|None|gpu-1\n"
    text = text_of(answers(NODES.format(1, "gpu:8", "ALLOCATED", ""), jobs, gpus={(77, "gpu-1"): (0,)}))
    assert 'hpcai_job_info{job_id="77",node="gpu-1",gpu="0",user="alice",partition="gpu"} 1' in text
    assert 'hpcai_job_start_seconds{job_id="77"}' in text
    assert 'hpcai_slurm_jobs{partition="gpu",state="running"} 30' in text
