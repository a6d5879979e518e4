# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's nodes, jobs and daemons as metrics, on the controller.

Users choose names, comments and accounts of jobs, so nothing here is parsed from an output that has them as text: jobs
come from squeue with fields that Slurm itself makes, and their GPUs from scontrol's JSON. Durations are given as times
from Slurm's own records, so that a restart of this program resets none.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..ledger.output import set_of
from ..machine.exposition import Metrics
from ..machine.run import CommandFailed, Run, follow, must
from ..slurm.hostlist import HostlistError, expand
from ..slurm.nodes import NO_INSTANCE, SHOW_NODES, NodeState, epoch, parse_nodes, parse_records
from ..slurm.private_data import SHOW_CONFIG, hides_users
from ..slurm.releases import SCONTROL_JSON, in_version

HELP: Mapping[str, str] = {
    "hpcai_slurm_up": "1 if this daemon of Slurm answers, 0 if not.",
    "hpcai_slurm_nodes": "Nodes by set and state.",
    "hpcai_slurm_node_out": "Always 1; a node that is drained or down, with its state and reason.",
    "hpcai_slurm_node_out_since_seconds": "When a node was drained or went down, in seconds since the epoch.",
    "hpcai_slurm_jobs": "Jobs by partition and state; an array that waits counts as one.",
    "hpcai_slurm_jobs_pending": "Pending jobs by Slurm's reason.",
    "hpcai_slurm_pending_since_seconds": "When the job that has waited longest was submitted, by partition.",
    "hpcai_job_info": "Always 1; a running job on a node, and each GPU that it holds there. gpu is empty without GPUs.",
    "hpcai_job_start_seconds": "When a running job started, in seconds since the epoch.",
    "hpcai_slurm_scheduler": "Figures of sdiag.",
}
"""Names of the metrics, each with its help text."""
DOWN, DRAINED, DRAINING, ABSENT = "down", "drained", "draining", "absent"
POWERED_DOWN, POWERING_UP = "powered_down", "powering_up"
STATES = (
    *("idle", "mixed", "allocated", "completing", "reserved", DRAINING, DRAINED, DOWN, POWERED_DOWN, POWERING_UP),
    "other",
)
"""States of nodes in the metrics. Nodes without a machine are left out."""
_SQUEUE = (
    *("squeue", "--noheader", "--noconvert", "--states=PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING"),
    "--format=%A|%u|%T|%P|%V|%S|%r|%N",
)
# 23.02 prints gres_detail only with --details. squeue of 22.05 has --json and always asks for the details
# (src/plugins/openapi/v0.0.38/jobs.c); squeue of later releases does not.
_JOBS = ("scontrol", "--details", "--json", "show", "jobs")
_JOBS_BY_SQUEUE = ("squeue", "--json")
_BUSY = ("RUNNING", "SUSPENDED", "COMPLETING")
_REASON = re.compile(r"[A-Za-z0-9_]{1,40}")
_MOST_REASONS = 30
_LARGEST_JSON = 128 << 20
"""In bytes, some 10,000 jobs (MaxJobCount). Users choose how many jobs there are, and how long their texts are."""
_JSON_LIMIT_S = 20.0
_JSON_KEYS = ("jobs", "job_id", "nodes", "gres_detail")
_GPU = re.compile(r"\bgpu(?::[^:,()]+)?:\d+\(IDX:([0-9,-]+)\)")
_GIVEN_GPU = re.compile(r"\bgpu(?::[^:,()]+)?:\d+")
# Names in sdiag's text: the section, the text before the colon, and the name in the metric.
_SDIAG = {
    ("", "Server thread count"): "server_threads",
    ("", "Agent queue size"): "agent_queue",
    ("", "DBD Agent queue size"): "dbd_queue",
    ("main", "Last cycle"): "cycle_last_us",
    ("main", "Mean cycle"): "cycle_mean_us",
    ("main", "Max cycle"): "cycle_max_us",
    ("main", "Cycles per minute"): "cycles_per_minute",
    ("main", "Last queue length"): "queue_length",
    ("backfill", "Last cycle"): "backfill_last_us",
    ("backfill", "Mean cycle"): "backfill_mean_us",
    ("backfill", "Last depth cycle"): "backfill_depth",
    ("backfill", "Last queue length"): "backfill_queue_length",
    ("backfill", "Total backfilled jobs (since last slurm start)"): "backfilled_jobs",
}


@dataclass(frozen=True)
class Job:
    """A job in the queue.

    :ivar submitted, started: in seconds since the epoch; None if unknown.
    """

    id: int
    user: str
    state: str
    partitions: str
    submitted: float | None
    started: float | None
    reason: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answers:
    """What Slurm's commands printed. None: the daemon did not answer.

    :ivar gpus: GPUs by job and node; empty if no node has GPUs or they are not known.
    :ivar slurmdbd: whether slurmdbd answers; None if the cluster has none.
    :ivar hide_users: whether users do not see each other's jobs, so that jobs have no names of users.
    """

    nodes: str | None = None
    jobs: str | None = None
    sdiag: str | None = None
    gpus: Mapping[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)
    slurmdbd: bool | None = None
    problems: tuple[str, ...] = ()
    hide_users: bool = False


class _TooLarge(Exception):
    """An answer is larger than it may be."""


def read_json(words: Sequence[str], largest: int = _LARGEST_JSON) -> bytes:
    """Return what a command of Slurm prints as JSON about all jobs.

    :param largest: the maximum size in bytes; the command is ended as soon as its answer is larger.
    :raises CommandFailed: slurmctld does not answer, or the answer is too large.
    """
    received: list[bytes] = []
    size = 0

    def gather(chunk: bytes) -> bool:
        nonlocal size
        size += len(chunk)
        if size > largest:
            raise _TooLarge
        received.append(chunk)
        return True

    try:
        ended = follow(words, {**os.environ, "LC_ALL": "C", "TZ": "UTC"}, gather, _JSON_LIMIT_S)
    except _TooLarge:
        raise CommandFailed(f"'{' '.join(words)}' printed more than {largest >> 20} MiB") from None
    except OSError as error:
        raise CommandFailed(f"{words[0]}: {error.strerror}") from None
    if ended.cut or ended.rc != 0:
        raise CommandFailed(f"'{' '.join(words)}' failed (exit status {ended.rc}, after {ended.seconds:.0f} s)")
    return b"".join(received)


def ask(run: Run, accounting: bool, jobs_json: Callable[[Sequence[str]], bytes] = read_json) -> Answers:
    """Ask slurmctld and slurmdbd.

    :param accounting: whether the cluster has a slurmdbd.
    :param jobs_json: runs a command and returns the JSON that it prints.
    """
    problems: list[str] = []

    def output(*words: str) -> str | None:
        try:
            return must(run(["timeout", "--kill-after=1", "20", *words])).stdout
        except CommandFailed as error:
            problems.append(str(error))
            return None

    nodes = output(*SHOW_NODES)
    jobs = sdiag = None
    gpus: Mapping[tuple[int, str], tuple[int, ...]] = {}
    hide_users = True
    if nodes is not None:
        jobs, sdiag = output(*_SQUEUE), output("sdiag")
        if jobs:
            hide_users = hides_users(output(*SHOW_CONFIG))
        if jobs and _has_gpus(nodes):
            # scontrol prints its version without asking slurmctld.
            release = in_version(output("scontrol", "--version") or "")
            try:
                gpus = gpus_of_jobs(jobs_json(_JOBS if release >= SCONTROL_JSON else _JOBS_BY_SQUEUE))
            except (CommandFailed, ValueError) as error:
                problems.append(f"the GPUs of jobs are not known: {error}")
    slurmdbd = None
    if accounting:
        slurmdbd = output("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "cluster", "format=cluster")
    return Answers(nodes, jobs, sdiag, gpus, bool(slurmdbd) if accounting else None, tuple(problems), hide_users)


def _has_gpus(shown: str) -> bool:
    records = parse_records(shown).values()
    return any(_GIVEN_GPU.search(record.field("Gres")) for record in records if record)


def gpus_of_jobs(shown: bytes) -> dict[tuple[int, str], tuple[int, ...]]:
    """Return the indices of the GPUs by job and node, from Slurm's JSON of jobs.

    Each job has ``gres_detail``, a list of texts such as ``gpu:h100:8(IDX:0-7)``, one for each of its nodes in the
    order of ``nodes``; the list is empty without GPUs. A text has several parts if the job has several types on the
    node, and none with ``IDX`` if it has no GPU there. Sources: ``dump_job_info`` in src/plugins/openapi/v0.0.38/jobs.c
    of Slurm 22.05.8; ``JOB_INFO_GRES_DETAIL`` in src/plugins/data_parser (v0.0.40 of 23.11.10, v0.0.42 of 24.11.5,
    v0.0.43 of 25.05.8); the text is made by ``gres_ctld_job_build_details`` in src/slurmctld/gres_ctld.c, later
    ``gres_stepmgr_job_build_details`` in src/stepmgr/gres_stepmgr.c.

    :raises ValueError: it is not such a document.
    """
    # A user's text may be invalid UTF-8. The names of nodes are ASCII, and other characters could quadruple the text.
    text = shown.decode("ascii", "replace")
    # Other keys are dropped while it is read, because all objects together take ten times as much memory as the text.
    decoder = json.JSONDecoder(object_hook=lambda one: {key: one[key] for key in _JSON_KEYS if key in one})
    # Lines before it are warnings.
    document, _end = decoder.raw_decode(text, max(text.find("{"), 0))
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("scontrol's answer has no jobs")
    found: dict[tuple[int, str], tuple[int, ...]] = {}
    for job in jobs:
        if not isinstance(job, dict) or not isinstance(job.get("job_id"), int):
            continue
        texts, nodes = job.get("gres_detail"), job.get("nodes")
        if not isinstance(texts, list) or not isinstance(nodes, str) or not nodes:
            continue
        try:
            names = expand(nodes)
        except HostlistError:
            continue
        for name, text in zip(names, texts):
            gpus = tuple(index for part in _GPU.findall(str(text)) for index in _indices(part))
            if gpus:
                found[job["job_id"], name] = gpus
    return found


def _indices(ranges: str) -> Iterable[int]:
    for part in ranges.split(","):
        first, _dash, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()) and int(last or first) < 1024:
            yield from range(int(first), int(last or first) + 1)


def state_of(node: NodeState) -> str:
    """Return the state of a node, one of STATES or ABSENT."""
    states = set(node.states)
    if node.reason.startswith(NO_INSTANCE) or "FUTURE" in states:
        return ABSENT
    if states & {"POWERED_DOWN", "POWERING_DOWN"} and "DRAIN" not in states:
        return POWERED_DOWN
    # A machine that boots cannot answer yet. A node that was set down keeps this flag.
    boots = "POWERING_UP" in states
    if states & {"DOWN", "FAIL"} or (states & {"NOT_RESPONDING", "UNKNOWN"} and not boots):
        return DOWN
    busy = states & {"ALLOCATED", "MIXED", "COMPLETING"}
    if node.drained:
        return DRAINING if busy else DRAINED
    if boots:
        return POWERING_UP
    for state in ("COMPLETING", "ALLOCATED", "MIXED"):
        if state in states:
            return state.lower()
    if states & {"RESERVED", "MAINT", "MAINTENANCE"}:
        return "reserved"
    return "idle" if "IDLE" in states else "other"


def parse_jobs(shown: str) -> list[Job]:
    """Parse the output of squeue. A line with another number of fields than asked for is ignored."""
    found = []
    for line in shown.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 8 or not fields[0].isdecimal():
            continue
        number, user, state, partitions, submitted, started, reason, nodes = fields
        try:
            names = tuple(expand(nodes)) if nodes else ()
        except HostlistError:
            names = ()
        found.append(Job(int(number), user, state, partitions, epoch(submitted), epoch(started), reason, names))
    return found


def parse_sdiag(shown: str) -> dict[str, float]:
    """Return sdiag's figures by the names in the metric."""
    found: dict[str, float] = {}
    section = ""
    for line in shown.splitlines():
        if line.startswith("Main schedule statistics"):
            section = "main"
        elif line.startswith("Backfilling stats"):
            section = "backfill"
        elif line and not line[0].isspace() and "statistics" in line:
            section = "rest"
        name, _colon, value = line.strip().partition(":")
        for where in (section, "") if section != "rest" else ():
            key = _SDIAG.get((where, name.strip()))
            number = re.match(r"\s*(\d+)", value)
            if key and number and key not in found:
                found[key] = float(number[1])
    return found


def add_to(metrics: Metrics, answers: Answers) -> None:
    """Add what Slurm answered. Pure."""
    metrics.add("hpcai_slurm_up", float(answers.nodes is not None), daemon="slurmctld")
    if answers.slurmdbd is not None:
        metrics.add("hpcai_slurm_up", float(answers.slurmdbd), daemon="slurmdbd")
    if answers.nodes is not None:
        _add_nodes(metrics, answers.nodes)
    if answers.jobs is not None:
        # squeue shows root all jobs, and every user of the cluster can read these metrics at the exporter's port.
        jobs = [replace(job, user="") if answers.hide_users else job for job in parse_jobs(answers.jobs)]
        _add_jobs(metrics, jobs, answers.gpus)
    for name, value in parse_sdiag(answers.sdiag or "").items():
        metrics.add("hpcai_slurm_scheduler", value, figure=name)


def _add_nodes(metrics: Metrics, shown: str) -> None:
    records = parse_records(shown)
    counts: Counter[tuple[str, str]] = Counter()
    for name, node in parse_nodes(shown).items():
        state, in_set = state_of(node), set_of(name)
        if state == ABSENT:
            continue
        for one in STATES:
            counts[in_set, one] += one == state
        if state in (DOWN, DRAINED, DRAINING):
            metrics.add("hpcai_slurm_node_out", 1, node=name, set=in_set, state=state, reason=node.reason)
            record = records[name]
            since = epoch(record.reason_given) if record else None
            if since is not None:
                metrics.add("hpcai_slurm_node_out_since_seconds", since, node=name)
    for (in_set, state), count in sorted(counts.items()):
        metrics.add("hpcai_slurm_nodes", count, set=in_set, state=state)


def _add_jobs(metrics: Metrics, jobs: Sequence[Job], gpus: Mapping[tuple[int, str], tuple[int, ...]]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    # Jobs without GPUs last: users can have so many that samples are dropped, but the GPUs bound the number of others.
    for job in sorted(jobs, key=lambda job: not any((job.id, node) in gpus for node in job.nodes)):
        # A job may name several partitions until it starts.
        partition = job.partitions.partition(",")[0]
        counts[partition, job.state.lower()] += 1
        if job.state == "PENDING":
            words = _REASON.match(job.reason)
            reasons[words[0] if words else "None"] += 1
            if job.submitted is not None:
                oldest[partition] = min(job.submitted, oldest.get(partition, job.submitted))
        if job.state in _BUSY:
            for node in job.nodes:
                for gpu in map(str, gpus.get((job.id, node), ())) if (job.id, node) in gpus else ("",):
                    labels = {"job_id": str(job.id), "node": node, "gpu": gpu, "user": job.user, "partition": partition}
                    metrics.add("hpcai_job_info", 1, **labels)
            if job.started is not None:
                metrics.add("hpcai_job_start_seconds", job.started, job_id=str(job.id))
    for (partition, state), count in sorted(counts.items()):
        metrics.add("hpcai_slurm_jobs", count, partition=partition, state=state)
    for reason, count in reasons.most_common(_MOST_REASONS):
        metrics.add("hpcai_slurm_jobs_pending", count, reason=reason)
    for partition, submitted in sorted(oldest.items()):
        metrics.add("hpcai_slurm_pending_since_seconds", submitted, partition=partition)
