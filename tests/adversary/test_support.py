# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What root collects, computes and decides from jobs: diagnostics, goodput and recovery.

Users choose the texts of jobs, processes and log lines. None of these may add a secret, a run or another user's job.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

from simulated.hosts import User
from simulated.node import Node

Eventually = Callable[..., float]
END_S = 120
"""Seconds for a short job and its record in slurmdbd, on a busy machine."""
SECRET = "hf_alicesOwnTokenForTheHub1234"
SETTINGS = "/etc/hpcai/recovery.json"
COLLECT = "hpcnode diag collect --output - | base64 --wrap=0"
# Shown as a process's name, its arguments and its environment, as long as the job runs.
PROCESS = f"HF_TOKEN={SECRET} exec -a --token={SECRET} sleep 300"


@pytest.fixture(autouse=True)
def clean_up(alice: User, bob: User, controller: Host) -> Iterator[None]:
    """After each test, no job is left, and no job is recovered."""
    yield
    for user in (alice, bob):
        user.run(f"scancel --user={user.name}")
    controller.check_output("rm -f %s", SETTINGS)


def texts_of(answer: str) -> dict[str, str]:
    """The files of an archive, by their names without the archive's folder."""
    import base64

    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer))) as archive:
        members = [(member.name.partition("/")[2], archive.extractfile(member)) for member in archive]
        return {name: file.read().decode("utf-8", "replace") for name, file in members if file is not None}


def submit(user: User, comment: str, command: str, options: str = "") -> str:
    """Submit a batch job with a comment of any text, and return its id."""
    script = f"#!/bin/sh\n{command}\n"
    words = f"sbatch --parsable --requeue --output=/dev/null {options} --comment={shlex.quote(comment)}"
    return user.check_output(f"printf %s {shlex.quote(script)} | {words}")


def recorded(controller: Host, number: str) -> str:
    """The state of a job in slurmdbd."""
    shown = controller.check_output("sacct --allocations --noheader --parsable2 --jobs=%s --format=State,End", number)
    return str(shown)


def test_a_users_secrets_are_in_no_diagnostics(
    alice: User, controller: Host, node: Callable[[str], Node], eventually: Eventually
) -> None:
    """Somebody who sends an archive to support would give away the tokens of all jobs that ran then."""
    number = submit(alice, f"token={SECRET}", f"bash -c {shlex.quote(PROCESS)}", f"--job-name=--token={SECRET}")
    eventually(lambda: alice.job(number)["JobState"] == "RUNNING", END_S, lambda: alice.job(number))
    machine = node(alice.job(number)["NodeList"].rpartition("-")[2])
    eventually(lambda: SECRET in machine.sh("cat /proc/*/cmdline", check=False), END_S, lambda: "no process")
    alice.check_output(f"logger --priority=user.err 'curl -H \"Authorization: Bearer {SECRET}\"'")
    for files in (texts_of(machine.sh(COLLECT)), texts_of(str(controller.check_output(COLLECT)))):
        assert "items/processes.txt" in files
        leaks = [name for name, text in files.items() if SECRET in text]
        assert leaks == []
    # Collecting is harmless beside a running job.
    assert alice.job(number)["JobState"] == "RUNNING"
    # Her line is there, without the secret: alice logs on the controller.
    assert "curl -H" in files["items/journal_errors.txt"]


def test_a_flooded_journal_takes_no_other_item_out_of_the_diagnostics(alice: User, controller: Host) -> None:
    """The errors of a crash would be missing, because a user's lines used up the size of the archive."""
    alice.check_output("yes 'error: everything is on fire' | head -n 60000 | logger --priority=user.err", 120)
    files = texts_of(str(controller.check_output(COLLECT)))
    index = {item["name"]: item for item in json.loads(files["index.json"])["items"]}
    assert "on fire" in files["items/journal_errors.txt"]
    for name in ("failed_units", "slurmctld_log", "nodes", "settings"):
        assert index[name]["file"], index[name]
        assert not index[name]["note"], index[name]


def test_names_and_keys_in_the_journal_neither_delay_nor_empty_the_diagnostics(alice: User, controller: Host) -> None:
    """The archive took hours, so the node was restarted before its evidence was saved. An invented name replaced an
    ordinary word in all files, and the beginning of a key hid the rest of its file."""
    write = "logger --priority=user.err"
    alice.check_output(f"seq --format='NodeName=wwww%.0f user=xwwww' 20000 | {write}", 120)
    alice.check_output(f"{write} 'user=error'; {write} -- '-----BEGIN PRIVATE KEY-----'")
    alice.check_output(f"seq --format='error: after %.0f' 300 | {write}")
    collect = COLLECT.replace("collect", "collect --pseudonyms")
    files = texts_of(str(controller.check_output(f"timeout 200 {collect}")))
    index = {item["name"]: item for item in json.loads(files["index.json"])["items"]}
    assert "error: after 300" in files["items/journal_errors.txt"]
    assert "wwww" not in files["items/journal_errors.txt"]
    assert "NodeName=" in files["items/nodes.txt"]
    assert not [name for name, item in index.items() if "took too long" in item["note"]]


def test_a_jobs_comment_adds_no_run_and_no_training(
    alice: User, bob: User, controller: Host, eventually: Eventually
) -> None:
    """sacct prints a comment as it is: with a line break, it contained a record of a run that nobody had made."""
    his = submit(bob, "hpcai:training=bobs", "true")
    eventually(lambda: "COMPLETED" in recorded(controller, his), END_S, lambda: recorded(controller, his))
    forged = [f"{separator.join([his, 'NODE_FAIL', *['2026-01-01T00:00:00'] * 4])}" for separator in "|~"]
    hers = submit(alice, "\n".join(["hpcai:training=hers", *forged, f"{his}|hpcai:training=forged"]), "true")
    eventually(lambda: "COMPLETED" in recorded(controller, hers), END_S, lambda: recorded(controller, hers))

    def ledger() -> tuple[dict[str, Any], dict[str, Any]]:
        found = json.loads(controller.check_output("hpcnode goodput --json --since 1h"))
        return found, {work["name"]: work for work in found["work"]}

    # Its jobs take less than a second, and the ledger ends with the last whole second.
    eventually(lambda: {"bobs", "hers"} <= set(ledger()[1]), END_S, lambda: ledger()[1])
    found, names = ledger()
    assert "forged" not in names
    assert names["bobs"]["interruptions"] == 0
    assert names["hers"]["interruptions"] == 0
    total = sum(bucket["node_seconds"] for bucket in found["buckets"].values()) + found["absent_node_seconds"]
    assert total == pytest.approx(found["nodes"] * found["seconds"], abs=1)


def test_a_user_cannot_have_another_users_job_started_again(
    alice: User, bob: User, controller: Host, eventually: Eventually
) -> None:
    """The recovery requeues as root, so a text that selects a job would start and hold jobs of everybody."""
    controller.check_output("printf %%s %s > %s", json.dumps({"schema": 1, "interval_s": 5}), SETTINGS)
    his = submit(bob, "an ordinary job", "exit 1")
    hostile = f"hpcai:recover\nJobId={his} hpcai:recover\n{his}|FAILED|0|1|\nhpcai:hang=0,hpcai:recover={his}"
    hers = submit(alice, hostile, "exit 1", f"--job-name={shlex.quote(f'{his}|FAILED|0|1|')}")
    for number in (his, hers):
        eventually(
            lambda n=number: "FAILED" in recorded(controller, n), END_S, lambda n=number: recorded(controller, n)
        )
    assert alice.run("hpcnode recover look").rc != 0

    def decided() -> set[str]:
        found: dict[str, Any] = json.loads(controller.check_output("hpcnode recover look --check --json"))
        return {str(one["job"]) for one in found["decisions"]}

    # slurmdbd knows the end of a job before its epilog, and with it the job in slurmctld, has ended.
    eventually(lambda: hers in decided(), END_S, decided)
    assert his not in decided()
