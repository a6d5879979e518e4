# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The service that collects this machine's metrics and writes them as text files for the node exporter.

It runs as one process, because starting Python for each collection would take more CPU time than the collection. If a
file cannot be written, for example on a full disk, the old one stays, and the next collection tries again.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..elastic import cost
from ..elastic.book import JOINED
from ..elastic.settings import read_settings as read_elastic
from ..elastic.status import read_status
from ..forms import ConfigError
from ..job.beeond import layout
from ..machine import imds
from ..machine.atomic import write_file
from ..machine.exposition import Metrics, as_text
from ..machine.root import Root
from ..machine.run import Run
from ..slurm.nodes import PLACEHOLDER_ADDRESS, parse_nodes
from . import progress, slurm
from .progress import Progress
from .settings import Settings, Targets, Token

LOCK = "/run/hpcai/metrics.lock"
JOBS_FILE, SLURM_FILE = "hpcai_jobs.prom", "hpcai_slurm.prom"
FILES = (JOBS_FILE, SLURM_FILE)
"""The text files."""
ERROR, INFO = "<3>", "<6>"
"""Priority prefixes of lines for the journal (sd-daemon(3))."""
TOKEN_EVERY_S = 600.0
"""A token of the metadata service is valid for hours; the service itself returns a cached one."""
TOKEN_AGAIN_S = 60.0
_SELF: Mapping[str, str] = {
    "hpcai_metrics_timestamp_seconds": "When this machine's metrics were collected.",
    "hpcai_metrics_cpu_seconds": "CPU time that this service and its commands have used.",
    "hpcai_metrics_seconds": "Duration of the last collection.",
    "hpcai_metrics_problems": "What could not be read in the last collection.",
    "hpcai_metrics_dropped": "Samples that were too many and are missing.",
    "hpcai_metrics_token_timestamp_seconds": "When the token for remote write was written.",
}
JOBS_HELP: Mapping[str, str] = {
    **progress.HELP,
    "hpcai_beeond_since_seconds": "When a job's BeeGFS on this node was started, in seconds since the epoch.",
    "hpcai_beeond_daemons": "Daemons of BeeGFS that this node runs for a job.",
    "hpcai_beeond_leftovers": "Leftovers of BeeGFS of ended jobs that could not be removed.",
    **_SELF,
}
SLURM_HELP: Mapping[str, str] = {
    **slurm.HELP,
    "hpcai_elastic_node_seconds": "Node-seconds of an elastic set today (UTC) by use.",
    "hpcai_elastic_cost": "List price of the node-hours of an elastic set today (UTC); missing without a price.",
    **_SELF,
}


def jobs_text(root: Root, kept: Progress, token: float | None, began: float, problems: int) -> str:
    """Return the metrics of the jobs on this node.

    :param kept: the progress of jobs.
    :param token: when the token was written; None for none.
    :param began: when the collection began, on the monotonic clock.
    :param problems: how many things this machine could not do, such as to get the token.
    """
    metrics = Metrics(JOBS_HELP)
    kept.add_to(metrics)
    for job in layout.jobs_with_state(root):
        held = layout.read_state(job, root)
        if held is not None:
            metrics.add("hpcai_beeond_since_seconds", held.since, job_id=job, kind=held.kind)
            metrics.add("hpcai_beeond_daemons", len(held.daemons), job_id=job)
    leftovers = root.text(layout.LEFTOVERS)
    if leftovers is not None:
        metrics.add("hpcai_beeond_leftovers", len(leftovers.splitlines()))
    return _finished(metrics, "jobs", began, problems, token)


def slurm_text(root: Root, answers: slurm.Answers, began: float, now: float) -> str:
    """Return the metrics of Slurm and of elastic sets."""
    metrics = Metrics(SLURM_HELP)
    slurm.add_to(metrics, answers)
    problems = len(answers.problems)
    try:
        elastic = read_elastic(root)
    except ConfigError:
        elastic, problems = None, problems + 1
    if elastic is not None:
        found = cost.summary(cost.read(root), cost.read_prices(root, elastic), cost.date_of(now))
        for name, figures in found["sets"].items():
            for use in cost.USES:
                metrics.add("hpcai_elastic_node_seconds", figures[use] * 3600, set=name, use=use)
            if figures["cost"] is not None:
                metrics.add("hpcai_elastic_cost", figures["cost"], set=name)
    return _finished(metrics, "slurm", began, problems, None)


def _finished(metrics: Metrics, part: str, began: float, problems: int, token: float | None) -> str:
    used = os.times()
    metrics.add("hpcai_metrics_timestamp_seconds", round(time.time()), part=part)
    metrics.add("hpcai_metrics_cpu_seconds", round(sum(used[:4]), 2), part=part)
    metrics.add("hpcai_metrics_seconds", round(time.monotonic() - began, 3), part=part)
    metrics.add("hpcai_metrics_problems", problems, part=part)
    metrics.add("hpcai_metrics_dropped", metrics.dropped, part=part)
    if token is not None:
        metrics.add("hpcai_metrics_token_timestamp_seconds", round(token))
    return as_text(metrics)


def elastic_targets(slurm_nodes: str, held: Mapping[str, Any] | None, port: int) -> list[dict[str, Any]]:
    """Return the targets of the machines of elastic sets, as a file_sd file has them. Pure.

    :param slurm_nodes: output of ``scontrol --oneliner show nodes``, which has the addresses.
    :param held: the daemon's status, which has the leases.
    """
    nodes = parse_nodes(slurm_nodes)
    found = []
    for name, one in ((held or {}).get("sets") or {}).items():
        for slot in one["slots"]:
            node = nodes.get(slot["slot"])
            if slot["state"] == JOINED and node and node.address not in ("", PLACEHOLDER_ADDRESS):
                labels = {"instance": node.name, "node": node.name, "function": "compute", "set": name}
                labels["vm_id"] = str(slot.get("vm_id") or "")
                where = f"[{node.address}]" if ":" in node.address else node.address
                found.append({"targets": [f"{where}:{port}"], "labels": labels})
    return found


def write_token(root: Root, token: Token, read: Callable[[str, str], str]) -> None:
    """Write a fresh token, which only root and the group can read.

    :param read: returns a token for a resource and a client id.
    :raises ImdsError: there is no token.
    :raises OSError: it cannot be written.
    :raises KeyError: there is no such group.
    """
    text = read(token.resource, token.client_id)
    gid = grp.getgrnam(token.group).gr_gid if os.geteuid() == 0 else os.getegid()
    write_file(root.at(token.file), text, mode=0o640, owner=(os.geteuid(), gid))


def _read_token(resource: str, client_id: str) -> str:
    return imds.read_token(resource, client_id or None, limit_s=10.0)


def serve(
    root: Root,
    run: Run,
    settings: Settings,
    ended: Callable[[], bool],
    read_token: Callable[[str, str], str] = _read_token,
) -> Iterator[str]:
    """Collect repeatedly until ``ended`` returns true, and yield lines for the journal."""
    kept = Progress()
    known: dict[str, str] = {}
    token_written: float | None = None
    next_token = next_slurm = next_jobs = 0.0
    with contextlib.ExitStack() as opened:
        # Where no jobs run, nobody would read from the socket, and each sender would wait for an answer.
        listener = opened.enter_context(progress.listening(root)) if settings.jobs else None
        yield f"{INFO}writes to {settings.folder}"
        yield from _remove_old(root, settings)
        while not ended():
            now = time.monotonic()
            problems: dict[str, str] = {}
            if settings.token and now >= next_token:
                next_token = now + TOKEN_EVERY_S
                try:
                    write_token(root, settings.token, read_token)
                    token_written = time.time()
                    problems["token"] = ""
                except (imds.ImdsError, OSError, KeyError) as error:
                    problems["token"] = str(error)
                    next_token = now + TOKEN_AGAIN_S
            if settings.slurm and now >= next_slurm:
                next_slurm = now + settings.slurm_interval_s
                answers = slurm.ask(run, settings.accounting)
                problems["slurm"] = "; ".join(answers.problems)
                problems["file"] = _write(
                    root, f"{settings.folder}/{SLURM_FILE}", slurm_text(root, answers, now, time.time())
                )
                if answers.nodes is not None:
                    problems["targets"] = _write_targets(root, settings, answers.nodes)
            if now >= next_jobs:
                next_jobs = now + settings.interval_s
                if kept.figures:
                    kept.forget(progress.running_jobs(root))
                without_token = bool({**known, **problems}.get("token"))
                text = jobs_text(root, kept, token_written, time.monotonic(), int(without_token))
                problems["jobs file"] = _write(root, f"{settings.folder}/{JOBS_FILE}", text)
            for what, words in problems.items():
                if words and known.get(what) != words:
                    yield f"{ERROR}{what}: {words}"
                known[what] = words
            until = min([next_jobs, *([next_slurm] if settings.slurm else [])])
            if listener:
                progress.receive(listener, kept, partial(progress.job_of_process, root), until, ended)
            else:
                _rest(until, ended)


def _remove_old(root: Root, settings: Settings) -> Iterator[str]:
    """Remove what a former first controller has written: the exporter would publish the last values for ever."""
    if not settings.slurm:
        try:
            os.unlink(root.at(f"{settings.folder}/{SLURM_FILE}"))
        except FileNotFoundError:
            pass
        except OSError as error:
            yield f"{ERROR}{SLURM_FILE} cannot be removed: {error}"


def _write_targets(root: Root, settings: Settings, slurm_nodes: str) -> str:
    """Write the targets of elastic sets; return why a file could not be written."""
    wanted = [settings.elastic_dcgm] if settings.elastic_dcgm else []
    if settings.elastic_targets:
        wanted.insert(0, Targets(settings.elastic_targets, settings.exporter.port))
    held = read_status(root) if wanted else None
    problems = []
    for one in wanted:
        targets = elastic_targets(slurm_nodes, held, one.port)
        problems.append(_write(root, one.file, json.dumps(targets, indent=1) + "\n"))
    return "; ".join(filter(None, problems))


def _rest(until: float, ended: Callable[[], bool]) -> None:
    while not ended() and (rest := until - time.monotonic()) > 0:
        time.sleep(min(1.0, rest))


def _write(root: Root, path: str, text: str) -> str:
    """Write a file; return why it could not be written."""
    try:
        write_file(root.at(path), text)
    except OSError as error:
        return str(error)
    return ""


def status(root: Root, settings: Settings) -> dict[str, float | None]:
    """Return when each text file was written, in seconds since the epoch; None if it is missing."""
    found: dict[str, float | None] = {}
    for name in FILES if settings.slurm else (JOBS_FILE,):
        try:
            found[name] = os.stat(root.at(f"{settings.folder}/{name}")).st_mtime
        except OSError:
            found[name] = None
    return found
