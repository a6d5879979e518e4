# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runner of the checks. It must never report a step as passed that did not run."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
import run_checks
from steps import (
    OLDEST_NODES,
    OWN_STEPS,
    PYTEST,
    STEPS,
    SUITE_DEPENDENT,
    Step,
    with_thorough_tests,
)

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def separate_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Do not overwrite the logs of a run that includes these tests."""
    monkeypatch.setattr(run_checks, "REPOSITORY", tmp_path)
    monkeypatch.setattr(run_checks, "LOGS", tmp_path / "logs")


def shell(name: str, script: str, needs: tuple[str, ...] = (), limit: int = 30) -> Step:
    return Step(name, ("sh", "-c", script), needs=needs, limit=limit)


def verdicts(outcomes: list[run_checks.Outcome]) -> dict[str, str]:
    return {outcome.name: outcome.verdict for outcome in outcomes}


def test_other_steps_run_after_a_failed_one() -> None:
    outcomes = run_checks.run_all([shell("bad", "exit 3"), shell("good", "exit 0")])
    assert verdicts(outcomes) == {"bad": "failed", "good": "passed"}


def test_a_step_fails_without_running_if_a_step_it_needs_failed(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "ran"
    outcomes = run_checks.run_all([shell("host", "exit 1"), shell("nodes", f"touch {trace}", needs=("host",))])
    assert verdicts(outcomes) == {"host": "failed", "nodes": "failed"}
    assert not trace.exists()


def test_steps_run_in_parallel_and_are_listed_in_order(tmp_path: pathlib.Path) -> None:
    wait_for_later = "for i in 1 2 3 4 5 6 7 8 9 10; do test -e {0} && exit 0; sleep 0.5; done; exit 1"
    long = shell("long", wait_for_later.format(tmp_path / "later"))
    outcomes = run_checks.run_all([long, shell("later", f"touch {tmp_path / 'later'}")])
    assert [(outcome.name, outcome.verdict) for outcome in outcomes] == [("long", "passed"), ("later", "passed")]


def test_at_most_as_many_steps_as_lanes_run_at_a_time(tmp_path: pathlib.Path) -> None:
    full = f'test "$(ls {tmp_path} | wc -l)" -gt {run_checks.LANES}'
    waits = f"for i in 1 2 3 4 5 6 7 8 9 10; do {full} && break; sleep 0.3; done; sleep 0.2"
    counts = f"touch {tmp_path}/$$; {waits}; ls {tmp_path} | wc -l >> {tmp_path}.counts; rm {tmp_path}/$$"
    tmp_path.mkdir(exist_ok=True)
    run_checks.LOGS.mkdir()
    outcomes = run_checks.run_all([shell(name, counts) for name in "abcdefgh"])
    assert [outcome.verdict for outcome in outcomes] == ["passed"] * 8
    most = max(int(line) for line in pathlib.Path(f"{tmp_path}.counts").read_text().split())
    # The logs' folder is one of the entries.
    assert most == run_checks.LANES + 1


def test_other_steps_run_while_a_step_waits_for_its_needs(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace"
    steps = [
        shell("host", f"sleep 0.5; echo host >> {trace}"),
        shell("nodes", f"echo nodes >> {trace}", needs=("host",)),
        shell("unit", f"echo unit >> {trace}"),
    ]
    assert [outcome.verdict for outcome in run_checks.run_all(steps)] == ["passed"] * 3
    assert trace.read_text().split() == ["unit", "host", "nodes"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_step_starts_after_another_one_has_ended_even_if_that_failed(tmp_path: pathlib.Path, code: int) -> None:
    trace = tmp_path / "trace"
    first = shell("molecule", f"sleep 0.5; echo molecule >> {trace}; exit {code}")
    then = dataclasses.replace(shell("oldest", f"echo oldest >> {trace}"), after=("molecule", "not part of this run"))
    outcomes = run_checks.run_all([first, then])
    assert verdicts(outcomes) == {"molecule": "failed" if code else "passed", "oldest": "passed"}
    assert trace.read_text().split() == ["molecule", "oldest"]


def test_a_failure_while_other_steps_run_is_kept() -> None:
    outcomes = run_checks.run_all([shell("long", "sleep 0.2; exit 3"), shell("b", "")])
    assert [outcome.verdict for outcome in outcomes] == ["failed", "passed"]


def test_exit_code_77_skips_a_step_and_shows_the_reason() -> None:
    (outcome,) = run_checks.run_all([shell("newest", "echo no such Python here; exit 77")])
    assert (outcome.verdict, outcome.remark) == ("skipped", "no such Python here")


def test_a_step_is_skipped_if_a_step_it_needs_was_skipped() -> None:
    outcomes = run_checks.run_all([shell("venv", "exit 77"), shell("tests", "exit 0", needs=("venv",))])
    assert verdicts(outcomes) == {"venv": "skipped", "tests": "skipped"}


def test_a_missing_program_fails_the_step() -> None:
    (outcome,) = run_checks.run_all([Step("missing", ("no-such-program-at-all",), needs=())])
    assert outcome.verdict == "failed"
    assert "no-such-program-at-all did not start" in outcome.remark


def test_a_step_over_its_limit_is_killed_with_its_children() -> None:
    began = time.monotonic()
    (outcome,) = run_checks.run_all([shell("hung", "sleep 60 & sleep 60", limit=1)])
    assert outcome.verdict == "failed"
    assert "limit of 1 s" in outcome.remark
    assert time.monotonic() - began < 20


def test_the_remark_shows_pytests_counts() -> None:
    (outcome,) = run_checks.run_all([shell("unit", "echo '===== 12 passed, 1 skipped in 3.21s ====='")])
    assert outcome.remark == "12 passed, 1 skipped"


@pytest.mark.parametrize(("shown", "remark"), [(True, "enroot and pyxis: stand-ins"), (False, "")])
def test_the_remark_shows_the_last_line_of_steps_that_say_what_they_use(shown: bool, remark: str) -> None:
    step = shell("stand-ins", "echo compiled; echo enroot and pyxis: stand-ins")
    (outcome,) = run_checks.run_all([dataclasses.replace(step, shows_last_line=shown)])
    assert outcome.remark == remark
    # The folder of enroot and pyxis has stand-ins unless somebody gives their files.
    assert [each.shows_last_line for each in STEPS if each.name == "stand-ins"] == [True]


def test_a_step_with_only_skipped_tests_is_skipped() -> None:
    (outcome,) = run_checks.run_all([shell("nodes", "echo '===== 3 skipped in 0.21s ====='")])
    assert outcome.verdict == "skipped"


def test_the_summary_names_tests_that_passed_only_when_they_were_repeated(tmp_path: pathlib.Path) -> None:
    tests, mark = tmp_path / "test_load.py", tmp_path / "mark"
    busy = f"import pathlib\n\ndef test_busy():\n    mark = pathlib.Path({str(mark)!r})\n    seen = mark.exists()\n"
    bad = "\ndef test_bad():\n    assert False, 'a real fault'\n"
    words = (sys.executable, *PYTEST[1:], "-c", "/dev/null", "-ra", str(tests))
    tests.write_text(f"{busy}    mark.touch()\n    assert seen, 'too slow'\n")
    (outcome,) = run_checks.run_all([Step("once", words, needs=())])
    assert (outcome.verdict, outcome.remark, outcome.failures) == ("passed", "1 passed, 1 rerun", ())
    assert re.search(
        "once: failed once, passed when repeated: .*::test_busy$", run_checks.summarize([outcome], 1), re.M
    )
    assert "too slow" in (run_checks.LOGS / "once.log").read_text()

    mark.unlink()
    tests.write_text(tests.read_text() + bad)
    (outcome,) = run_checks.run_all([Step("twice", words, needs=())])
    assert outcome.verdict == "failed"
    assert [test.rpartition("::")[2] for test in outcome.failures] == ["test_bad - AssertionError: a real fault"]
    assert [test.rpartition("::")[2] for test in outcome.repeated] == ["test_busy"]


def test_cpu_time_includes_processes_that_outlive_their_parent(tmp_path: pathlib.Path) -> None:
    """The containers of simulated machines do."""
    done, busy = tmp_path / "done", tmp_path / "busy.py"
    busy.write_text(f"import time\nwhile time.process_time() < 1: pass\nopen({str(done)!r}, 'w')\n")
    script = f"sh -c 'setsid {sys.executable} {busy} &'; until test -e {done}; do sleep 0.1; done; sleep 0.3"
    (outcome,) = run_checks.run_all([shell("nodes", script)])
    assert outcome.verdict == "passed"
    assert 1 <= outcome.cpu < 5
    assert "CPU min" in run_checks.summarize([outcome], 1.0)


def test_the_last_line_of_the_summary_is_the_count() -> None:
    outcomes = run_checks.run_all([shell("a", "exit 0"), shell("b", "exit 1"), shell("c", "exit 77")])
    assert run_checks.summarize(outcomes, 1.0).splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_an_unknown_step_name_is_an_error() -> None:
    runner = [sys.executable, str(REPOSITORY / "tests/setup/run_checks.py"), "no-such-step"]
    done = subprocess.run(runner, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no step is named no-such-step" in done.stderr


def test_step_names_are_unique_and_needs_come_first() -> None:
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))
    for position, step in enumerate(STEPS):
        assert {*step.needs, *step.after} <= set(names[:position])


def test_steps_with_the_same_ports_or_machine_do_not_run_at_the_same_time() -> None:
    after = {step.name: step.after for step in STEPS}
    assert {name: names for name, names in after.items() if names} == {
        "molecule-oldest": ("molecule",),
        "hardware-oldest": ("hardware",),
        "cluster-oldest": ("cluster", "cluster-features", "cluster-portal"),
        "elastic-oldest": ("cluster-elastic",),
        "elastic-faults-oldest": ("cluster-elastic-faults",),
        "elastic-sets-oldest": ("cluster-elastic-sets",),
    }
    assert {*SUITE_DEPENDENT} <= {f"tests/cluster/{path.name}" for path in (REPOSITORY / "tests/cluster").glob("*.py")}


def test_the_summary_lists_failed_tests() -> None:
    failure = "FAILED tests/test_a.py::test_b[x y] - assert 1 == 2"
    outcomes = run_checks.run_all(
        [shell("nodes", f"echo '{failure}'; echo '=== 1 failed, 2 passed in 3.21s ==='; exit 1")]
    )
    lines = run_checks.summarize(outcomes, 1.0).splitlines()
    assert "nodes: tests/test_a.py::test_b[x y] - assert 1 == 2" in lines
    assert lines[-1] == "0 passed, 1 failed"


def test_the_summary_has_one_line_for_each_reason_why_tests_were_skipped() -> None:
    lines = ["SKIPPED [2] tests/a/test_b.py:12: no PyTorch: X names none", "SKIPPED [1] tests/c.py: no udevadm here"]
    text = "\\n".join([*lines, "=== 3 passed, 3 skipped in 3.21s ==="])
    outcomes = run_checks.run_all([shell(name, f"printf '{text}\\n'") for name in ("one", "two")])
    summary = run_checks.summarize(outcomes, 1.0).splitlines()
    assert [line for line in summary if line.startswith("skipped ")] == [
        "skipped 4 tests: no PyTorch: X names none",
        "skipped 2 tests: no udevadm here",
    ]
    assert summary[-1] == "2 passed, 0 failed"


RUN_THESE = """
import sys
sys.path[:0] = [{setup!r}, {tests!r}]
import pathlib, leftovers, run_checks
from steps import Step
folder = pathlib.Path({folder!r})
run_checks.REPOSITORY = folder
run_checks.LOGS = folder / "logs"
leftovers.REPOSITORY = folder
run_checks.STEPS = (
    Step("long", ("sh", "-c", {script!r}), needs=()),
    Step("later", ("touch", str(folder / "later")), needs=("long",)),
)
run_checks.chosen = lambda arguments: list(run_checks.STEPS)
sys.argv = ["run_checks.py"]
raise SystemExit(run_checks.main())
"""


def runner(folder: pathlib.Path, script: str) -> subprocess.Popen[str]:
    """Start the runner in a new process, with a step that runs this script and another step after it."""
    code = RUN_THESE.format(
        setup=str(REPOSITORY / "tests/setup"), tests=str(REPOSITORY / "tests"), folder=str(folder), script=script
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_file(path: pathlib.Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
    return path.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_all_processes_and_starts_no_step(
    tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    # A daemon like the simulator: in its own session, and its parent ends.
    daemon = f"setsid sh -c 'echo $$ > {tmp_path}/daemon; exec sleep 600' &"
    with runner(tmp_path, f"{daemon} echo $$ > {tmp_path}/step; exec sleep 600") as process:
        pids = [int(wait_for_file(tmp_path / name)) for name in ("daemon", "step")]
        process.send_signal(number)
        output = process.communicate(timeout=120)[0]
    assert process.returncode not in (0, None), output
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not (tmp_path / "later").exists()


def test_a_process_that_outlives_its_step_is_ended_and_reported(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "daemon"
    script = f"setsid sh -c 'echo $$ > {file}; exec sleep 601' & until [ -s {file} ]; do sleep 0.1; done"
    with runner(tmp_path, script) as process:
        output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert re.search(r"ended a process that a step left running: \d+ sleep 601", output)
    assert not psutil.pid_exists(int((tmp_path / "daemon").read_text()))


def test_an_interrupted_run_removes_its_simulators(tmp_path: pathlib.Path) -> None:
    scenario = REPOSITORY / "tests/simulator/scenarios/site.yml"
    state = tmp_path / ".simulator/interrupted"
    start = (
        f"PYTHONPATH={REPOSITORY}/tests exec {sys.executable} -m simulator up {scenario} --backend none "
        f"--name interrupted --port 0 --state-dir {state}; sleep 600"
    )
    with runner(tmp_path, start.replace("exec ", "", 1)) as process:
        wait_for_file(state / "state.json")
        pid = int((state / "simulator.pid").read_text())
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=240)[0]
    assert process.returncode == 143, output
    assert not psutil.pid_exists(pid)


def test_a_run_with_all_includes_the_thorough_tests() -> None:
    commands = {step.name: with_thorough_tests(step).command for step in STEPS}
    assert commands["hardware"] == ("tests/setup/hardware.sh",)
    parts = ("node", "jobs", "health", "machine")
    node, jobs, health, machine, contract, roles, newest = (
        commands[name][len(PYTEST) :]
        for name in (*(f"unit-{part}" for part in parts), "contract", "contract-roles", "tests-newest")
    )
    others = ("tests/contract/simulator", *roles[:-1])
    assert contract == ("tests/contract", *(f"--ignore={path}" for path in others), "--durations=25")
    assert newest[:2] == ("tests/unit/plugins", "--ignore=tests/unit/plugins/module_utils/_node")
    assert node == (
        "tests/unit/plugins/module_utils/_node",
        *(f"--ignore={path}" for path in (*jobs, *health, *machine)),
    )
    # On the oldest suite, the emulated machine has its daily tests only.
    assert [name for name, words in commands.items() if "thorough" in " ".join(words)] == ["hardware-oldest"]


def test_a_step_chosen_by_name_runs_with_the_steps_it_needs() -> None:
    arguments = argparse.Namespace(only=["cluster"], all=False, quick=False)
    assert [step.name for step in run_checks.chosen(arguments)] == ["venv", "host", "stand-ins", "cluster"]


def test_clusters_of_steps_that_run_at_the_same_time_have_different_names_ports_and_networks() -> None:
    folder = REPOSITORY / "tests/cluster"
    step_of = {pathlib.Path(OLDEST_NODES).name: "oldest-nodes"}
    step_of |= {pathlib.Path(path).name: step for step, paths in OWN_STEPS.items() for path in paths}
    assert {name for name in step_of if not (folder / name).is_file()} == set()
    found = {}
    for path in folder.glob("*.py"):
        given = re.search(r'^NAME, PORT, NETWORK\b.* = ("\w+"), (\d+), ("[\d./]+")', path.read_text(), re.MULTILINE)
        if given:
            found[path.name] = (step_of.get(path.name, "cluster"), set(given.groups()))
    create = (REPOSITORY / "molecule/cluster/create.yml").read_text()
    (port,), (network,) = re.findall(r"--port (\d+)", create), re.findall(r"--network ([\d./]+)", create)
    found["scenario cluster"] = ("molecule", {port, f'"{network}"'})
    (port,) = re.findall(
        r"^port: (\d+)$", (REPOSITORY / "tests/simulator/scenarios/node.yml").read_text(), re.MULTILINE
    )
    found["scenario node"] = ("molecule-node", {port})
    assert len(found) > 15
    shared = [
        (one, other, what & whats)
        for one, (step, what) in found.items()
        for other, (another, whats) in found.items()
        if one < other and step != another and what & whats
    ]
    assert shared == []
