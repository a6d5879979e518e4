# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A notebook as a Slurm job: JupyterHub's spawner, on top of batchspawner.

batchspawner formats commands and scripts as text and lets a notebook set any attribute of its spawner, also the command
that submits jobs. Here no text is formatted, and a notebook can report only its port.
"""

from __future__ import annotations

import asyncio
import html
import json
import pwd
import re
import time
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import batchspawner
from batchspawner.batchspawner import BatchSpawnerBase, JobStatus
from jupyterhub.apihandlers import APIHandler, default_handlers
from tornado import web
from traitlets import Bool, Dict, Integer, List, Unicode

from . import form, slurm
from .commands import answer_of, cancel_until_done

assert batchspawner
SINFO_AGE_S = 60.0
FORM_S = 8.0
"""Time limit of sinfo, for which the user waits. Without slurmctld it tries for minutes."""
API = "/api/hpcai/notebook"

_BY_STATUS = {
    slurm.Status.WAITING: JobStatus.PENDING,
    slurm.Status.RUNNING: JobStatus.RUNNING,
    slurm.Status.UNKNOWN: JobStatus.UNKNOWN,
    slurm.Status.ENDED: JobStatus.NOTFOUND,
}


class StartFailed(web.HTTPError):
    """A notebook that did not start. JupyterHub shows the message to the user."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)
        self.jupyterhub_message = message
        self.jupyterhub_html_message = html.escape(message)


class SlurmNotebook(BatchSpawnerBase):
    """A user's notebook in a Slurm job."""

    only_partitions = List(Unicode(), config=True)
    longest_hours = Integer(8, config=True)
    wait_minutes = Integer(30, config=True)
    containers = Dict(config=True)
    own_containers = Bool(False, config=True)
    ports = List(Integer(), [21000, 21999], config=True)
    notebook_arguments = List(Unicode(), config=True)

    job_id: str
    taken: tuple[str, int | None] = ("", None)
    """The node without a free port, and the user who has most of them; empty and None if there is no such node."""

    _job = slurm.Job(slurm.Status.UNKNOWN)
    _exclude = ""
    _partitions: tuple[float, tuple[form.Partition, ...]] = (0.0, ())
    _cancellations: ClassVar[set[asyncio.Task[bool]]] = set()

    # The form. It is made for each request, because partitions change.

    async def offer(self) -> form.Offer:
        """Ask Slurm for the partitions.

        :raises StartFailed: Slurm does not answer.
        """
        asked, partitions = SlurmNotebook._partitions
        if not partitions or time.monotonic() - asked > SINFO_AGE_S:
            rc, stdout, stderr = await answer_of(slurm.SINFO, limit_s=FORM_S)
            if rc != 0:
                self.log.warning("sinfo failed: %s", stderr.strip()[:300])
                raise StartFailed("Slurm's controller does not answer. No notebook can be started. Try again later.")
            partitions = form.partitions_of(stdout, self.only_partitions)
            SlurmNotebook._partitions = (time.monotonic(), partitions)
        return form.Offer(partitions, self.longest_hours, dict(self.containers), self.own_containers)

    async def get_options_form(self) -> str:
        """The form's HTML, or a message."""
        try:
            return form.page(await self.offer())
        except StartFailed as problem:
            return f'<p class="alert alert-danger">{problem.jupyterhub_html_message}</p>'

    async def run_options_from_form(self, data: dict[str, list[str]]) -> dict[str, Any]:
        """Check what the browser has sent."""
        choice = form.choice_of(data, await self.offer())
        # The partition's limit is looked up again.
        return {name: value for name, value in vars(choice).items() if name != "most_minutes"}

    async def options_from_query(self, query_data: dict[str, list[str]]) -> dict[str, Any]:
        """Refuse a link with the fields of the form, which could be somebody else's.

        :raises FormProblem: always. JupyterHub then shows the form.
        """
        raise form.FormProblem("Links cannot start a notebook. Choose here.")

    def _choice(self, offer: form.Offer) -> form.Choice:
        """Check the options again: JupyterHub's API takes them as JSON, past the form."""
        given = dict(self.user_options or {})
        image = given.pop("image", "")
        sent = {name: [str(value)] for name, value in given.items()}
        if image and image in offer.containers.values() if offer.containers else False:
            names = [name for name, value in (offer.containers or {}).items() if value == image]
            sent["container"] = names[:1]
        elif image:
            sent["image"] = [str(image)]
        return form.choice_of(sent, offer)

    # The job.

    async def start(self) -> tuple[str, int]:
        """Submit the job, and wait until its notebook listens.

        :raises StartFailed: the job is refused, ends before, or does not run within ``wait_minutes``.
        """
        self.port = 0
        if self.server:
            self.server.port = 0
        try:
            choice = self._choice(await self.offer())
        except form.FormProblem as problem:
            raise StartFailed(str(problem)) from None
        await self._submit(choice)
        deadline = time.monotonic() + self.wait_minutes * 60
        while not (self.port and self._job.status is slurm.Status.RUNNING):
            await asyncio.sleep(self.startup_poll_interval)
            if await self.query_job_status() is JobStatus.NOTFOUND:
                job, self.job_id = self.job_id, ""
                raise StartFailed(self._why_ended(job))
            if self._job.status is not slurm.Status.RUNNING and time.monotonic() > deadline:
                job = self.job_id
                await self.stop()
                raise StartFailed(
                    f"Job {job} did not start within {self.wait_minutes} minutes, so it was cancelled. "
                    "Try again later, or ask for fewer GPUs, CPU cores or hours."
                )
        self.ip = await self._address(self._job.host)
        self.db.commit()
        self.log.info("The notebook of %s is job %s at %s:%d", self.user.name, self.job_id, self.ip, self.port)
        return self.ip, self.port

    def _why_ended(self, job: str) -> str:
        node, uid = self.taken
        if not node:
            return f"Job {job} ended before its notebook was ready. See ~/.hpcai-notebook.log, and 'sacct -j {job}'."
        # Only for the next try, because there may be no other node.
        self._exclude = node
        try:
            owner = f"the user {pwd.getpwuid(uid).pw_name}" if uid is not None else "programs that do not listen there"
        except KeyError:
            owner = f"the user id {uid}"
        said = f"All ports for notebooks on node {node} are taken by {owner}"
        self.log.warning("Job %s of %s has no notebook: %s", job, self.user.name, said)
        return f"{said}, so job {job} ended. Start the notebook again: the next job uses another node."

    async def _submit(self, choice: form.Choice) -> None:
        environment = self.get_env()
        names = sorted(name for name in environment if name.startswith("JUPYTERHUB_"))
        arguments = [f"--ports={self.ports[0]}-{self.ports[1]}", *self.notebook_arguments]
        # Only these variables: the rule of sudo keeps no others.
        environment = {name: environment[name] for name in names} | {"PATH": "/usr/bin:/bin"}
        self.taken, exclude, self._exclude = ("", None), self._exclude, ""
        command = slurm.submit(self.user.name, choice, names, arguments, exclude)
        rc, stdout, stderr = await answer_of(command, environment)
        if rc != 0:
            self.log.warning("sbatch for %s failed: %s", self.user.name, stderr.strip()[:300])
            raise StartFailed(slurm.why_refused(stderr))
        self.job_id = slurm.id_of(stdout)
        self._job = slurm.Job(slurm.Status.UNKNOWN)

    async def _address(self, host: str) -> str:
        """The address of a node. Its name in Slurm need not be a name that the network knows."""
        rc, stdout, _stderr = await answer_of(["/usr/bin/scontrol", "--oneliner", "show", "node", host])
        found = re.search(r"\bNodeAddr=([A-Za-z0-9.:-]+)", stdout)
        return found[1] if rc == 0 and found else host

    async def query_job_status(self) -> JobStatus:
        """Ask Slurm for the job. An unknown state does not end the notebook."""
        if not self.job_id:
            return JobStatus.NOTFOUND
        self._job = slurm.job_of(*await answer_of(slurm.query(self.user.name, self.job_id)))
        self.job_status = self._job.status.value
        return _BY_STATUS[self._job.status]

    async def stop(self, now: bool = False) -> None:
        """Cancel the job, and wait until it has ended."""
        if not self.job_id:
            return
        rc, _stdout, stderr = await answer_of(slurm.cancel(self.user.name, self.job_id))
        is_cancelled = slurm.is_cancelled(rc, stderr)
        for _attempt in range(0 if now else 20):
            status = await self.query_job_status()
            is_cancelled = is_cancelled or status is JobStatus.NOTFOUND
            if status in (JobStatus.NOTFOUND, JobStatus.UNKNOWN):
                break
            await asyncio.sleep(0.5)
        if not is_cancelled:
            # JupyterHub forgets the job now, whatever happens here.
            self.log.warning("scancel of job %s failed, and is repeated: %s", self.job_id, stderr.strip()[:300])
            again = cancel_until_done(self.user.name, self.job_id, self.longest_hours * 3600)
            task = asyncio.create_task(again)
            SlurmNotebook._cancellations.add(task)
            task.add_done_callback(SlurmNotebook._cancellations.discard)
        self.clear_state()

    async def progress(self) -> AsyncIterator[dict[str, str]]:
        """What the page shows while the job waits."""
        last = ""
        while True:
            job, said = self._job, ""
            if job.status is slurm.Status.WAITING:
                said = f"Job {self.job_id} waits in the queue" + (f" ({job.reason})" if job.reason else "")
            elif job.status is slurm.Status.RUNNING:
                said = f"Job {self.job_id} runs on {job.host}. Its notebook starts."
            elif self.job_id:
                said = f"Job {self.job_id} was submitted."
            if said and said != last:
                yield {"message": said}
                last = said
            await asyncio.sleep(1)

    def state_ispending(self) -> bool:
        """Whether the job waits."""
        return self._job.status is slurm.Status.WAITING

    def state_isrunning(self) -> bool:
        """Whether the job runs."""
        return self._job.status is slurm.Status.RUNNING

    def state_gethost(self) -> str:
        """The job's node."""
        return self._job.host


class NotebookHandler(APIHandler):
    """A notebook reports its port, or that there is none, with the token that only it and the hub have."""

    @web.authenticated
    def post(self) -> None:
        """Take the report of the notebook that has this token."""
        token, user = self.get_auth_token(), self.current_user
        spawner = next(
            (one for one in getattr(user, "spawners", {}).values() if token and one.api_token == token), None
        )
        if spawner is None:
            raise web.HTTPError(403, "This token is not that of a notebook that starts.")
        data = self.get_json_body()
        given = data if isinstance(data, dict) else {}
        if "taken_by" in given:
            self._take_owner(spawner, given)
            return
        port = given.get("port")
        first, last = spawner.ports
        if not isinstance(port, int) or isinstance(port, bool) or not first <= port <= last:
            raise web.HTTPError(400, f"The port must be a number from {first} to {last}.")
        spawner.port = port
        self.set_status(201)
        self.finish(json.dumps({"message": "The hub knows the port."}))

    def _take_owner(self, spawner: Any, given: dict[str, Any]) -> None:
        uid = given["taken_by"]
        try:
            node = slurm.node_of(str(given.get("node")))
        except slurm.Refused as problem:
            raise web.HTTPError(400, str(problem)) from None
        if uid is not None and (not isinstance(uid, int) or isinstance(uid, bool) or not 0 <= uid < 2**32):
            raise web.HTTPError(400, "taken_by must be a user id.")
        spawner.taken = (node, uid)
        self.set_status(201)
        self.finish(json.dumps({"message": "The hub knows who has the ports."}))


def install_handler() -> None:
    """Register the handler, and remove that of batchspawner."""
    default_handlers[:] = [entry for entry in default_handlers if "batchspawner" not in str(entry[0])]
    default_handlers.append((API, NotebookHandler))
