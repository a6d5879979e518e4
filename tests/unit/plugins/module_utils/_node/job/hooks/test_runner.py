# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running the scripts of a kind, with real scripts."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks import runner
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import run_script

from .conftest import Node


def test_scripts_run_in_the_order_of_their_names(node: Node) -> None:
    for name in ("50-b", "10-z", "50-a"):
        node.script(name, f"echo {name}")
    done = node.run()
    assert [one.name for one in done.runs] == ["10-z", "50-a", "50-b"]
    assert done.failure is None
    assert [line for line in node.log().splitlines() if line in ("10-z", "50-a", "50-b")] == ["10-z", "50-a", "50-b"]
    assert (node.failure(), node.waiting()) == (None, [])


def test_without_scripts_nothing_fails_and_nothing_is_written(node: Node) -> None:
    assert node.run().failure is None
    assert not node.path("/var/log").exists()
    assert not node.path("/run/hpcai").exists()


def test_the_first_failure_ends_a_prolog_with_its_last_line_as_reason(node: Node) -> None:
    node.script("10-good", "true")
    node.script("50-gpu", "echo looking; echo 'GPU 3 is missing' >&2; echo; exit 3")
    node.script("60-never", "touch /proc/self/nothing")
    done = node.run()
    assert [one.name for one in done.runs] == ["10-good", "50-gpu"]
    failure = node.failure()
    assert failure is not None
    assert failure.reason == "hpcai: prolog: 50-gpu: GPU 3 is missing (job 17)"
    assert (failure.cause, failure.job, failure.boot_id) == ("exit status 3", "17", "one")
    assert failure.log == "/var/log/hpcai/jobs/17.prolog.log"
    assert node.waiting() == ["prolog"]


def test_an_epilog_runs_all_scripts_and_then_fails(node: Node) -> None:
    node.script("10-bad", "exit 1", "epilog")
    node.script("20-good", "echo cleaned", "epilog")
    node.script("30-bad", "echo too >&2; exit 2", "epilog")
    done = node.run("epilog")
    assert [one.name for one in done.runs] == ["10-bad", "20-good", "30-bad"]
    failure = node.failure("epilog")
    assert failure is not None
    assert failure.reason == "hpcai: epilog: 10-bad: exit status 1 (job 17)"
    assert failure.others == ("30-bad",)
    assert "cleaned" in node.log("17.epilog.log")


def test_a_failed_health_script_is_recorded_and_not_reported_to_slurm(node: Node) -> None:
    node.script("10-bad", "echo $SLURM_JOB_ID is sick; exit 1", "health")
    done = node.run("health", SLURM_JOB_ID="")
    failure = node.failure("health")
    assert failure is not None
    assert failure == done.failure
    assert failure.reason == "hpcai: health: 10-bad: is sick"
    assert node.waiting() == []
    node.run("health", SLURM_JOB_ID="")
    assert node.log("health.log").count("is sick") == 1


def test_a_script_over_its_limit_is_killed_with_its_children(node: Node, tmp_path: pathlib.Path) -> None:
    mark = tmp_path / "mark"
    node.script("10-slow", f"(trap '' TERM; sleep 0.9; touch {mark}) & echo waits; sleep 60")
    node.settings(sets={"site": {"prolog": {"10-slow": 0.3}}})
    began = time.monotonic()
    node.run()
    assert time.monotonic() - began < 5
    failure = node.failure()
    assert failure is not None
    assert failure.cause == "not done within 0.3 s"
    assert failure.reason == "hpcai: prolog: 10-slow: not done within 0.3 s (job 17)"
    assert failure.last_line == "waits"
    time.sleep(0.8)
    assert not mark.exists()


def test_a_script_that_ignores_sigterm_is_killed(node: Node) -> None:
    path = node.script("10-deaf", "trap '' TERM; echo deaf; while :; do sleep 0.05; done")
    ended = run_script("10-deaf", str(path), {}, 0.2, lambda _chunk: None, grace_s=0.2)
    assert (ended.cause, ended.last_line) == ("not done within 0.2 s", "deaf")


def test_all_scripts_together_have_a_time_limit(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner.TERM_S", 0)
    monkeypatch.setattr("ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner.BURIAL_S", 0)
    node.script("10-slow", "sleep 0.4")
    node.script("20-late", "sleep 0.4")
    node.script("30-later", "true")
    node.settings(limits={"epilog": {"total": 0.6}})
    for name in ("10-slow", "20-late", "30-later"):
        node.script(name, "sleep 0.4", "epilog")
    done = node.run("epilog")
    assert [one.cause[:8] for one in done.runs] == ["", "not done", "not star"]


def test_background_processes_of_a_script_are_not_waited_for(node: Node) -> None:
    node.script("10-daemon", "sleep 30 & echo started $!")
    began = time.monotonic()
    assert node.run().failure is None
    assert time.monotonic() - began < 5
    [started] = [line for line in node.log().splitlines() if line.startswith("started ")]
    # It still runs.
    os.kill(int(started.split()[1]), 9)


def test_a_signal_and_a_missing_interpreter_are_named(node: Node) -> None:
    node.script("10-shot", "kill -9 $$", "epilog")
    node.file("/etc/hpcai/epilog.d/20-bare", "#!/no/such/shell\n", 0o755)
    causes = [one.cause for one in node.run("epilog").runs]
    assert causes == ["ended by signal 9", "cannot be started: No such file or directory"]


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("50-loose", 0o777, "writable by group or others"),
        ("50-loose", 0o775, "writable by group or others"),
        ("50-plain", 0o644, "not executable"),
        ("README", 0o755, "its name is invalid: expected two digits"),
        ("50-gpu.sh~", 0o755, "its name is invalid: expected two digits"),
    ],
)
def test_an_unsafe_script_is_refused_before_anything_runs(node: Node, name: str, mode: int, words: str) -> None:
    node.script("10-first", "echo ran")
    node.script(name, "echo ran", mode=mode)
    done = node.run()
    assert [one.name for one in done.runs] == [name]
    failure = node.failure()
    assert failure is not None
    assert failure.reason.startswith(f"hpcai: prolog: {name}: refused: ")
    assert words in failure.cause
    assert "ran" not in node.log().split("refused")[0]


def test_a_script_of_another_owner_is_refused(node: Node, as_another_user: int) -> None:
    if as_another_user == 0:
        os.chown(node.script("50-theirs", "true"), 1234, -1)
    else:
        node.script("50-theirs", "true")
    [one] = node.run().runs
    assert "must belong to root" in one.cause


def test_a_link_and_a_folder_writable_by_others_are_refused(node: Node) -> None:
    script = node.script("10-real", "true")
    (script.parent / "20-link").symlink_to(script)
    assert [one.cause for one in node.run().runs] == ["refused: it is not a regular file; links are not followed"]
    (script.parent / "20-link").unlink()
    script.parent.chmod(0o777)
    [one] = node.run().runs
    assert "its folder /etc/hpcai/prolog.d is writable by group or others" in one.cause


def test_an_epilog_runs_the_other_scripts_if_one_is_refused(node: Node) -> None:
    node.script("10-loose", "echo loose", "epilog", 0o777)
    node.script("20-clean", "echo clean", "epilog")
    done = node.run("epilog")
    assert [(one.name, bool(one.cause)) for one in done.runs] == [("10-loose", True), ("20-clean", False)]
    assert done.failure is not None


def test_files_that_are_being_written_are_ignored(node: Node) -> None:
    node.file("/etc/hpcai/prolog.d/.50-gpu.x8f2", "#!/bin/sh\nexit 1\n", 0o755)
    assert node.run().runs == ()


def test_the_environment_is_the_same_with_each_release_of_slurm(node: Node) -> None:
    node.script("10-env", 'echo "$SLURM_JOB_NODELIST $SLURM_NODELIST $SLURMD_NODENAME $HPCAI_HOOK $PATH"')
    node.run()
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert f"compute-[0,3] compute-[0,3] compute-0 prolog {path}" in node.log()
    node.run(SLURM_NODELIST="", SLURM_JOB_NODELIST="compute-9")
    assert "compute-9 compute-9 compute-0" in node.log()


def test_invalid_settings_fail_the_prolog_and_are_the_cause(node: Node) -> None:
    node.script("10-good", "true")
    node.file("/etc/hpcai/job_hooks.json", "{")
    failure = node.run().failure
    assert failure is not None
    assert failure.script == "job_hooks.json"
    assert "is not valid JSON" in failure.cause
    assert node.waiting() == ["prolog"]


def test_logs_have_a_size_limit_and_old_logs_are_removed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.script("10-loud", "head -c 600000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1")
    failure = node.run().failure
    assert failure is not None
    # Even if a line is left out of the log, it can be the cause.
    assert failure.last_line == "the end"
    assert len(node.log()) < runner.MOST_BYTES + 1000
    assert "left out" in node.log()
    assert node.path("/var/log/hpcai/jobs/17.prolog.log").stat().st_mode & 0o007 == 0
    for number in range(6):
        os.utime(node.file(f"/var/log/hpcai/jobs/{number}.prolog.log", ""), (number, number))
    runner.prune_logs(node.root, most=3, slack=1)
    names = sorted(path.name for path in node.path("/var/log/hpcai/jobs").iterdir())
    assert names == ["17.prolog.log", "4.prolog.log", "5.prolog.log"]


def test_a_log_that_cannot_be_written_does_not_stop_a_job(node: Node) -> None:
    node.file("/var/log/hpcai", "in the way")
    node.script("10-good", "echo good")
    assert node.run().failure is None


def test_a_later_success_is_recorded_and_the_failure_is_kept(node: Node) -> None:
    node.script("10-flag", f"[ -e {node.folder}/good ] || {{ echo no flag; exit 1; }}")
    node.run()
    first = node.failure()
    assert first is not None
    assert first.passed == ""
    node.file("/good", "")
    assert node.run(SLURM_JOB_ID="18").failure is None
    later = node.failure()
    assert later is not None
    assert (later.job, later.words) == ("17", "no flag")
    assert later.passed


def test_the_output_pipe_is_closed(node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))
    path = node.script("10-good", "echo good")
    for _time in range(3):
        assert run_script("10-good", str(path), {}, 5, lambda _chunk: None).cause == ""
    assert len(os.listdir("/proc/self/fd")) == before
