#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the checks of steps.py, several at a time, and print a table of the results at the end.

The output of each step goes to .test-logs/NAME.log. If a step fails, the end of its log is printed. The other steps
still run, except those that need the failed step.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence

import leftovers
from earlier import Earlier
from full_run import is_omitted
from memory import temporary_folder
from steps import NOT_THOROUGH, STAND_INS, STEPS, Step, with_thorough_tests

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LOGS = REPOSITORY / ".test-logs"
MEASURED = pathlib.Path(__file__).with_name("measured.py")
COULD_NOT_RUN, DID_NOT_START = 77, 127
TAIL_LINES = 200
HEARTBEAT_SECONDS = 60
LANES = 4
"""How many steps run at a time, on two CPUs or more. The long steps spend a third of their time waiting for machines
and jobs, and the plugins' tests spend most of theirs waiting for servers that are slow on purpose."""
LANES_OF_ALL = 5
"""The same for `make test-all`: two of its steps wait for machines of elastic sets nearly all the time."""
LANES_OF_QUICK = 6
"""The same for `make check`: its long steps start at once."""
LOW_PRIORITY = "5"
"""The niceness of steps that are not urgent: they get a third of the CPU time of an urgent one (sched_prio_to_weight in
Linux)."""
RUNNING: list[subprocess.Popen[bytes]] = []
"""The processes of steps, which end with this process."""
# pytest's own last line: "=== 12 passed, 1 skipped in 3.21s ===".
PYTEST_SUMMARY = re.compile(r"^=+ (?P<counts>\d+ (?:passed|failed|skipped|error)[^=]*) in [\d.]+s.*=+$", re.MULTILINE)
# "SKIPPED [3] tests/unit/test_a.py:12: no PyTorch".
PYTEST_SKIP = re.compile(r"^SKIPPED \[(?P<count>\d+)\] [^ :]+(?::\d+)?: (?P<reason>.+)$", re.MULTILINE)
# A line of pytest's short summary: "FAILED tests/unit/test_a.py::test_b - AssertionError: ...".
PYTEST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+::.*)$", re.MULTILINE)
PYTEST_FAILURES = "short test summary info"
# A test that passed when pytest repeated it.
PYTEST_REPEATED = re.compile(r"^PASSED (?P<test>\S+::.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a step ended: passed, failed or skipped, a remark for the table, and the tests that failed, with the reason.

    ``repeated`` has the tests that failed, and passed when they were repeated. ``skips`` has the reasons why tests
    were skipped, with their number. ``cpu`` is the CPU time in seconds of all processes that it started and that
    ended with it.
    """

    name: str
    verdict: str
    seconds: float = 0.0
    remark: str = ""
    failures: tuple[str, ...] = ()
    cpu: float = 0.0
    skips: tuple[tuple[str, int], ...] = ()
    repeated: tuple[str, ...] = ()


def environment(step: Step) -> dict[str, str]:
    """The step's environment variables. Its programs come first in PATH, as in an activated virtual environment."""
    folder = REPOSITORY / step.venv
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    variables = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(folder), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    # The caller's own settings must not change what is tested.
    foreign = ("ANSIBLE_", "PYTHONPATH", "HPCAI_ENROOT_FILES", "HPCAI_BEEGFS_FILES", "HPCAI_AZCOPY_FILES")
    given = variables.get("HPCAI_ENROOT_FILES")
    variables = {name: value for name, value in variables.items() if not name.startswith(foreign)}
    if step.name == "stand-ins" and given is not None:
        variables["HPCAI_ENROOT_FILES"] = given
    if "stand-ins" in step.needs:
        # All of these steps use the same node image, which contains what the step stand-ins builds.
        variables["HPCAI_ENROOT_FILES"] = str(REPOSITORY / STAND_INS)
    return variables


def wait_for(process: subprocess.Popen[bytes], step: Step, log: pathlib.Path, began: float) -> int | None:
    """Wait for a step and print its last line each minute. Return None if it exceeded its limit and was killed."""
    next_sign = began + HEARTBEAT_SECONDS
    while True:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if now - began > step.limit:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return None
        if now >= next_sign:
            next_sign += HEARTBEAT_SECONDS
            print(f"      ... {step.name} {now - began:.0f} s: {last_line(log)[:100]}", flush=True)


def last_line(log: pathlib.Path) -> str:
    """The last line that is not empty, without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def run(step: Step) -> Outcome:
    """Run one step, with its output in its log file."""
    LOGS.mkdir(exist_ok=True)
    log, cpu = LOGS / f"{step.name}.log", LOGS / f"{step.name}.cpu"
    cpu.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        output.write(f"$ {shlex.join(step.command)}\n".encode())
        output.flush()
        process = subprocess.Popen(
            (sys.executable, MEASURED, cpu, "0" if step.urgent else LOW_PRIORITY, *step.command),
            cwd=REPOSITORY,
            env=environment(step),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    RUNNING.append(process)
    code = wait_for(process, step, log, began)
    RUNNING.remove(process)
    outcome = judge(step, code, log, time.monotonic() - began)
    return dataclasses.replace(outcome, cpu=float(cpu.read_text(encoding="ascii")) if cpu.exists() else 0.0)


def judge(step: Step, code: int | None, log: pathlib.Path, seconds: float) -> Outcome:
    """Turn an exit code into an outcome."""
    if code is None:
        return Outcome(step.name, "failed", seconds, f"ended after its limit of {step.limit} s")
    if code == COULD_NOT_RUN:
        return Outcome(step.name, "skipped", seconds, last_line(log))
    text = log.read_text(encoding="utf-8", errors="replace")
    summaries = list(PYTEST_SUMMARY.finditer(text))
    counts = summaries[-1]["counts"] if summaries else ""
    repeated = tuple(found["test"] for found in PYTEST_REPEATED.finditer(text))
    if code:
        failures = tuple(found["test"] for found in PYTEST_FAILURE.finditer(text.rpartition(PYTEST_FAILURES)[2]))
        remark = last_line(log) if code == DID_NOT_START else f"exit code {code}"
        return Outcome(step.name, "failed", seconds, counts or remark, failures, repeated=repeated)
    if "pytest" in step.command and not summaries:
        # An interrupted pytest ended with code 0 after a part of its tests.
        return Outcome(step.name, "failed", seconds, "ended without a summary of pytest", repeated=repeated)
    # If every test was skipped, nothing was tested.
    verdict = "passed" if not summaries or "passed" in counts else "skipped"
    remark = counts or (last_line(log) if step.shows_last_line else "")
    skips = tuple((found["reason"], int(found["count"])) for found in PYTEST_SKIP.finditer(text))
    return Outcome(step.name, verdict, seconds, remark, skips=skips, repeated=repeated)


def show_end_of(log: pathlib.Path) -> None:
    """Print the end of a failed step's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"      --- the end of {log.relative_to(REPOSITORY)} ---")
    for line in lines[-TAIL_LINES:]:
        print(f"      | {line}")
    sys.stdout.flush()


def unmet_need(need: str, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """The outcome that prevents a step from running. A need that is not part of this run counts as met."""
    outcome = outcomes.get(need)
    return outcome if outcome is not None and outcome.verdict != "passed" else None


def next_step(waiting: Sequence[Step], started: Collection[str], outcomes: Mapping[str, Outcome]) -> Step | None:
    """The first waiting step that comes after ended steps only. A step that is not part of this run counts as ended."""
    unfinished = {step.name for step in waiting} | (set(started) - set(outcomes))
    return next((step for step in waiting if not unfinished & {*step.needs, *step.after}), None)


def run_all(steps: Sequence[Step], lanes: int = LANES, earlier: Earlier | None = None) -> list[Outcome]:
    """Run the steps, as many at a time as there are lanes, except those whose needs are not met.

    A step starts as soon as a lane is free, and its needs and the steps of ``after`` have ended. Steps start in the
    order of the table.
    """
    outcomes: dict[str, Outcome] = {}
    waiting, started = list(steps), list[str]()
    changed = threading.Condition()
    broken: list[BaseException] = []

    def lane() -> None:
        while True:
            with changed:
                while not (step := next_step(waiting, started, outcomes)) and waiting and not broken:
                    changed.wait()
                if step is None or broken:
                    return
                waiting.remove(step)
                started.append(step.name)
                print(f"[{len(started):2}/{len(steps)}] {step.name}: {shlex.join(step.command)}", flush=True)
                unmet = next(filter(None, (unmet_need(need, outcomes) for need in step.needs)), None)
            try:
                if unmet is None:
                    outcome = run(step)
                else:
                    remark = f"not run: {unmet.name} {unmet.verdict}: {unmet.remark}"
                    outcome = Outcome(step.name, unmet.verdict, remark=remark)
            except BaseException as error:
                with changed:
                    broken.append(error)
                    changed.notify_all()
                return
            with changed:
                outcome = unless_interrupted(outcome, broken)
                record(outcomes, outcome, shown=unmet is None)
                if earlier and outcome.verdict == "passed":
                    earlier.keep(outcome.name, dataclasses.asdict(outcome))
                changed.notify_all()

    threads = [threading.Thread(target=lane, daemon=True) for _lane in range(lanes)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        with changed:
            # Now no lane starts another step.
            broken.append(error)
        raise
    if broken:
        raise broken[0]
    return [outcomes[step.name] for step in steps]


def without_passed(steps: Sequence[Step], earlier: Earlier) -> tuple[list[Step], list[Outcome]]:
    """Return the steps that must run, and how the others ended in earlier runs of `make test-all` on this tree.

    Steps that others need, such as the virtual environment, always run.
    """
    needed = {need for step in steps for need in step.needs}
    ended = {name: kept for name, kept in earlier.passed().items() if name not in needed}
    done = []
    for kept in (ended[step.name] for step in steps if step.name in ended):
        remark = f"{kept['remark']} (in an earlier run)".lstrip()
        skips = tuple((reason, count) for reason, count in kept["skips"])
        repeated = tuple(kept["repeated"])
        done.append(Outcome(kept["name"], kept["verdict"], kept["seconds"], remark, (), kept["cpu"], skips, repeated))
    return [step for step in steps if step.name not in ended], done


def unless_interrupted(outcome: Outcome, broken: Sequence[BaseException]) -> Outcome:
    """The outcome; failed if the run is interrupted, because the step may have ended early, whatever its exit code."""
    return dataclasses.replace(outcome, verdict="failed", remark="interrupted") if broken else outcome


def record(outcomes: dict[str, Outcome], outcome: Outcome, shown: bool = True) -> None:
    """Record and print how a step ended. If it ran and failed, print the end of its output."""
    outcomes[outcome.name] = outcome
    print(f"      {outcome.name} {outcome.verdict} in {outcome.seconds:.0f} s {outcome.remark}".rstrip(), flush=True)
    if outcome.verdict == "failed" and shown:
        show_end_of(LOGS / f"{outcome.name}.log")


def summarize(outcomes: Sequence[Outcome], wall: float) -> str:
    """The table at the end of a run. Other programs read its last line, the count."""
    width = max(len(outcome.name) for outcome in outcomes)
    lines = [
        f"{o.name:{width}}  {o.verdict:7}  {o.seconds:6.0f} s  {o.cpu / 60:5.1f} CPU min  {o.remark}".rstrip()
        for o in outcomes
    ]
    counts = collections.Counter(outcome.verdict for outcome in outcomes)
    total = sum(outcome.seconds for outcome in outcomes)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    # Repeated here, so that the end of a long output shows which tests failed.
    lines += [f"{o.name}: {failure}"[:400] for o in outcomes for failure in o.failures]
    lines += [f"{o.name}: failed once, passed when repeated: {test}"[:400] for o in outcomes for test in o.repeated]
    skips = collections.Counter[str]()
    for outcome in outcomes:
        for reason, count in outcome.skips:
            skips[reason] += count
    lines += [f"skipped {count} {'test' if count == 1 else 'tests'}: {reason}"[:200] for reason, count in skips.items()]
    cpu = sum(outcome.cpu for outcome in outcomes) / 60
    lines += [
        "",
        f"{total:.0f} s of steps, {cpu:.0f} CPU min, {wall:.0f} s in all; all output is in .test-logs/",
    ]
    lines += [f"{counts['passed']} passed, {counts['failed']} failed{skipped}"]
    return "\n".join(lines)


def chosen(arguments: argparse.Namespace) -> list[Step]:
    """The requested steps, in the order of the table."""
    known = [step.name for step in STEPS]
    unknown = [name for name in arguments.only if name not in known]
    if unknown:
        raise SystemExit(f"run_checks.py: no step is named {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.all:
        # Molecule's scenarios read from this variable which tests to run.
        os.environ["HPCAI_TESTS"] = f"thorough or {NOT_THOROUGH}"
    wanted = [with_thorough_tests(step) for step in STEPS] if arguments.all else STEPS
    if arguments.only:
        named = with_needs(arguments.only)
        return [step for step in wanted if step.name in named]
    wanted = [step for step in wanted if (step.quick or not arguments.quick) and (arguments.all or not step.exhaustive)]
    return wanted if arguments.all else [step for step in wanted if not is_omitted(step, REPOSITORY)]


def with_needs(names: Collection[str]) -> set[str]:
    """These steps and all that they need, so that a single step also runs on a fresh clone."""
    found, further = set[str](), set(names)
    while further:
        found |= further
        further = {need for step in STEPS if step.name in found for need in step.needs} - found
    return found


def main() -> int:
    """Choose the steps, run them and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the steps for daily work")
    parser.add_argument("--all", action="store_true", help="also the tests marked thorough, and the mutants")
    parser.add_argument("--resume", action="store_true", help="without steps that passed on this very commit")
    parser.add_argument("--list", action="store_true", help="list the steps that would run")
    parser.add_argument("only", nargs="*", metavar="STEP", help="only these steps")
    steps = chosen(arguments := parser.parse_args())
    if arguments.list:
        for step in steps:
            print(f"{step.name:16}  {'quick' if step.quick else '     '}  {shlex.join(step.command)}")
        return 0
    lanes = LANES_OF_ALL if arguments.all else LANES_OF_QUICK if arguments.quick else LANES
    earlier = Earlier(REPOSITORY, LOGS / "passed.json") if arguments.all else None
    if arguments.resume and not (earlier and earlier.tree):
        raise SystemExit("run_checks.py: --resume needs --all, and a clone without changes that are not committed")
    steps, done = without_passed(steps, earlier) if arguments.resume and earlier else (steps, [])
    return leftovers.supervised(lambda: run_and_sum_up(steps, lanes, earlier, done))


def run_and_sum_up(
    steps: Sequence[Step], lanes: int = LANES, earlier: Earlier | None = None, done: Sequence[Outcome] = ()
) -> int:
    """Run the steps; 1 if one of them failed.

    :param earlier: where to keep which steps have passed.
    :param done: the steps that do not run, because they passed earlier.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A background job of a shell ignores Ctrl-C, and the steps would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with temporary_folder() as temporary:
        print(f"Temporary files are in {temporary}.", flush=True)
        os.environ["TMPDIR"] = str(temporary)
        try:
            outcomes = run_all(steps, lanes, earlier)
        except (KeyboardInterrupt, SystemExit):
            # A second Ctrl-C must not interrupt the clean-up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("\nInterrupted: ending the steps and what they started; this takes up to two minutes.", flush=True)
            leftovers.interrupt(RUNNING)
            raise
    print(f"\n{summarize([*done, *outcomes], time.monotonic() - began)}", flush=True)
    return 1 if any(outcome.verdict == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
