# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spawner within the real JupyterHub and batchspawner, without a hub that runs."""

from __future__ import annotations

from typing import Any

from stand_ins import portal as stand_in

SPAWNER = """
import asyncio, json, types
from hpcai_portal import commands, form, spawner

answers, asked = [], []
async def answer_of(command, env=None, limit_s=30.0):
    asked.append(" ".join(command).partition(" -- ")[2].split(" ")[0].rpartition("/")[2])
    return answers.pop(0)
spawner.answer_of = commands.answer_of = answer_of
commands.AGAIN_S = 0.01

made = spawner.SlurmNotebook(_log_name="alice", user=types.SimpleNamespace(name="alice"), orm_spawner=None)
made.job_id = "7"
"""
AWAY = (1, "", "Unable to contact slurm controller (connect failure)")


def stopped(*answers: tuple[int, str, str]) -> dict[str, Any]:
    """What the spawner does if its user stops the notebook, and Slurm answers this."""
    program = """
import sys
answers += [tuple(answer) for answer in json.loads(sys.argv[1])["answers"]]
async def main():
    await made.stop()
    asked.append("stopped")
    for _wait in range(500):
        if not spawner.SlurmNotebook._cancellations:
            break
        await asyncio.sleep(0.01)
asyncio.run(main())
print(json.dumps({"asked": asked, "job_id": made.job_id, "left": len(answers)}))
"""
    found: dict[str, Any] = stand_in.in_hub(SPAWNER + program, answers=answers)
    return found


def test_a_job_that_slurm_did_not_cancel_is_cancelled_later() -> None:
    assert stopped(AWAY, AWAY, AWAY, (0, "", "")) == {
        "asked": ["scancel", "squeue", "stopped", "scancel", "scancel"],
        "job_id": "",
        "left": 0,
    }
    # sudo could not be ended.
    slow = (124, "", "sudo timed out after 30 s")
    assert stopped(slow, slow, (0, "", ""))["asked"] == ["scancel", "squeue", "stopped", "scancel"]


def test_a_job_that_slurm_has_cancelled_or_forgotten_is_not_cancelled_again() -> None:
    ended = (0, "CANCELLED|compute-0|None\\n", "")
    assert stopped((0, "", ""), ended)["asked"] == ["scancel", "squeue", "stopped"]
    assert stopped((1, "", "Invalid job id"), AWAY)["asked"] == ["scancel", "squeue", "stopped"]
    assert stopped(AWAY, ended)["asked"] == ["scancel", "squeue", "stopped"]


def test_the_choice_in_the_form_becomes_the_jobs_time_limit() -> None:
    program = """
answers.append((0, "short|30:00|4|(null)\\n", ""))
fields = {"partition": ["short"], "gpus": ["0"], "cpus": ["1"], "hours": ["1"]}
async def main():
    made.user_options = await made.run_options_from_form(fields)
    return made._choice(await made.offer()).minutes
print(json.dumps([asyncio.run(main()), sorted(made.user_options)]))
"""
    assert stand_in.in_hub(SPAWNER + program) == [30, ["cpus", "gpus", "hours", "image", "partition"]]


def test_a_link_starts_no_notebook() -> None:
    program = """
try:
    made_of = asyncio.run(made.options_from_query({"partition": ["gpu"], "gpus": ["8"], "cpus": ["1"], "hours": ["8"]}))
except form.FormProblem as problem:
    made_of = str(problem)
print(json.dumps([made_of, asked]))
"""
    assert stand_in.in_hub(SPAWNER + program) == ["Links cannot start a notebook. Choose here.", []]


def test_a_job_that_waits_too_long_is_cancelled_and_its_user_sees_why() -> None:
    program = """
made.startup_poll_interval, made.wait_minutes = 0.01, 0
async def submit(choice):
    made.job_id, made._job = "8", spawner.slurm.Job(spawner.slurm.Status.UNKNOWN)
made._submit = submit
made.user_options = {"partition": "short", "gpus": "0", "cpus": "1", "hours": "1"}
answers += [(0, "short|30:00|4|(null)\\n", ""), (0, "PENDING||Resources\\n", "")]
answers += [(0, "", ""), (0, "CANCELLED||None\\n", "")]
try:
    shown = str(asyncio.run(made.start()))
except spawner.StartFailed as problem:
    shown = problem.jupyterhub_message
print(json.dumps([shown, asked, made.job_id]))
"""
    shown, asked, job = stand_in.in_hub(SPAWNER + program)
    assert shown.startswith("Job 8 did not start within 0 minutes, so it was cancelled. Try again later,")
    # sinfo is the only command without sudo.
    assert (asked, job) == (["", "squeue", "scancel", "squeue"], "")


def test_a_job_that_starts_in_time_is_not_cancelled() -> None:
    program = """
made.startup_poll_interval, made.wait_minutes = 0.01, 0
made.job_id = "8"
async def submit(choice):
    made.port = 21007
made._submit = submit
made.db = types.SimpleNamespace(commit=lambda: None)
made.user_options = {"partition": "short", "gpus": "0", "cpus": "1", "hours": "1"}
answers += [(0, "short|30:00|4|(null)\\n", ""), (0, "RUNNING|compute-0|None\\n", ""), (0, "NodeAddr=10.0.0.6 ", "")]
print(json.dumps(asyncio.run(made.start())))
"""
    assert stand_in.in_hub(SPAWNER + program)[0] == "10.0.0.6"


TAKEN = """
submitted = []
def submit(user, choice, names, arguments, exclude):
    submitted.append(exclude)
    return ["sbatch"]
spawner.slurm.submit = submit
made.startup_poll_interval = 0.01
made.get_env = dict
made.user_options = {"partition": "short", "gpus": "0", "cpus": "1", "hours": "1"}
answers.append((0, "short|30:00|4|(null)\\n", ""))

class Handler(spawner.NotebookHandler):
    def __init__(self):
        pass
    get_auth_token = lambda self: "t"
    current_user = types.SimpleNamespace(spawners={"": made})
    get_json_body = lambda self: self.given
    set_status = finish = lambda self, _said: None
type(made).api_token = "t"

def report(given):
    handler = Handler()
    handler.given = given
    try:
        spawner.NotebookHandler.post.__wrapped__(handler)
    except spawner.web.HTTPError as error:
        return error.status_code

def shown_after(given):
    async def answer_and_report(command, env=None, limit_s=30.0):
        if command == ["sbatch"]:
            return 0, str(7 + len(submitted)), ""
        if given:
            assert report(given) is None
        return answers.pop(0) if answers else (0, "FAILED||None", "")
    spawner.answer_of = answer_and_report
    try:
        asyncio.run(made.start())
    except spawner.StartFailed as problem:
        return problem.jupyterhub_message
"""


def test_a_user_sees_who_took_all_ports_of_a_node_and_the_next_job_avoids_it() -> None:
    program = """
import pwd
shown = [shown_after({"taken_by": 0, "node": "gpu-7"}), shown_after({"taken_by": 4294967294, "node": "gpu-8"})]
shown += [shown_after({"taken_by": None, "node": "gpu-9"}), shown_after(None), shown_after(None)]
print(json.dumps([shown, submitted]))
"""
    shown, excluded = stand_in.in_hub(SPAWNER + TAKEN + program)
    next_one = "Start the notebook again: the next job uses another node."
    taken = "All ports for notebooks on node"
    assert shown[:3] == [
        f"{taken} gpu-7 are taken by the user root, so job 8 ended. {next_one}",
        f"{taken} gpu-8 are taken by the user id 4294967294, so job 9 ended. {next_one}",
        f"{taken} gpu-9 are taken by programs that do not listen there, so job 10 ended. {next_one}",
    ]
    assert [words.partition(" before ")[0] for words in shown[3:]] == ["Job 11 ended", "Job 12 ended"]
    # Only once: there may be no other node.
    assert excluded == ["", "gpu-7", "gpu-8", "gpu-9", ""]


def test_a_notebook_cannot_report_anything_else_than_a_node_and_a_user() -> None:
    program = """
wrong = [{"taken_by": uid, "node": "gpu-7"} for uid in (True, -1, "0", 2 ** 32, [1])]
wrong += [{"taken_by": 0, "node": node} for node in ("-x", "a,b", "<b>", "", ["a"], "a" * 300)]
found = [report(given) for given in wrong]
print(json.dumps([found, made.taken]))
"""
    found, taken = stand_in.in_hub(SPAWNER + TAKEN + program)
    assert (found, taken) == ([400] * 11, ["", None])
