# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode metrics: collects this machine's metrics for Prometheus, and reports the progress of a job."""

from __future__ import annotations

import argparse
import math
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Callable

from ..machine import job_progress
from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import run
from ..metrics import credentials
from ..metrics.settings import FILE, Settings, read_settings
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments, require_this_machine
from .service import alone, print_lines

_DESCRIPTION = """\
Collects metrics that no other part of hpcnode writes: on a compute node the progress that jobs report, and the state of
their BeeGFS; on the controller Slurm's nodes, jobs, scheduler and daemons, which job holds which GPU, and the cost of
elastic sets. The node exporter publishes them. The role hpcai.azure.monitoring writes the settings to
/etc/hpcai/metrics.json.
"""
_STATUS = """\
Shows when the text files were written.

Exit status: 0 all files are new, 1 a file is missing or old, 2 this machine is not monitored.
"""
_SERVE = """\
Collects repeatedly until SIGTERM. hpcai-metrics.service calls it.
"""
_SHOW = """\
Asks Slurm once and prints the metrics of the controller. It changes nothing.

Exit status: 0 good, 1 slurmctld does not answer.
"""
_PROGRESS = """\
Reports the progress of the job in which it runs to the node's metrics service, which accepts only numbers. It needs no
root. A program can report without starting hpcnode: it connects to /run/hpcai/progress.sock (SOCK_SEQPACKET) and sends
one message of at most 1024 bytes, such as {"kind": "train", "step": 1200, "steps": 50000, "step_seconds": 3.4}. The
answer is ok, no, or later: each user may send 20 messages per second on a node.

Exit status: 0 accepted, 1 this node is not monitored, its metrics service does not answer, the process is in no job, or
there were too many messages, 3 wrong usage.
"""
_EXPORTER = """\
Starts the node exporter, which listens on this machine's private address only. hpcai-node-exporter.service calls it.
"""
_CREDENTIALS = """\
Creates the password of Alertmanager and its web configuration in a folder, unless they exist. The role monitoring calls
it.
"""


def _add_progress(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--step", type=float, required=True, metavar="N", help="the last completed step")
    add("--steps", type=float, metavar="N", help="number of steps of the training")
    add("--step-seconds", type=float, metavar="S", help="mean duration of the last steps in seconds")


def _add_credentials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", required=True, metavar="DIR", help="an existing folder of root")
    parser.add_argument("--group", default="prometheus", help="the group that may read them (prometheus)")


def _settings(root: Root) -> Settings:
    settings = read_settings(root)
    if settings is None:
        raise ConfigError(f"no {FILE}: this machine is not monitored; the role hpcai.azure.monitoring writes it")
    return settings


def _status(_args: argparse.Namespace, root: Root) -> Answer:
    from ..metrics.serve import status

    settings, now = _settings(root), time.time()
    limit = 5 * max(settings.interval_s, settings.slurm_interval_s)
    lines, bad = [], False
    found = status(root, settings)
    for name, when in found.items():
        bad = bad or when is None or now - when > limit
        lines.append(f"{name}: {'missing' if when is None else f'written {now - when:.0f} s ago'}")
    return Answer(BAD if bad else GOOD, "\n".join(lines), {"folder": settings.folder, "files": found})


def _serve(_args: argparse.Namespace, root: Root) -> Answer:
    from ..metrics.serve import LOCK, serve

    settings = _settings(root)
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_arguments: end.set())
    with alone(root, LOCK, "collection of metrics", "hpcai-metrics"):
        return print_lines(serve(root, run, settings, end.is_set))


def _show(_args: argparse.Namespace, root: Root) -> Answer:
    from ..metrics import slurm
    from ..metrics.serve import slurm_text

    settings = read_settings(root) or Settings()
    answers = slurm.ask(run, settings.accounting)
    text = slurm_text(root, answers, time.monotonic(), time.time())
    status = GOOD if answers.nodes is not None else BAD
    return Answer(status, text.rstrip("\n"), {"metrics": text, "problems": list(answers.problems)})


_NOT_ACCEPTED: Mapping[str, str] = {
    job_progress.REFUSED: "this process is in no job",
    job_progress.LATER: f"too many messages: a user may send {job_progress.MOST_PER_S} per second on a node. Report "
    "less often",
    job_progress.NO_ANSWER: "this node has no metrics service, or the service had no time to answer: 'systemctl status "
    "hpcai-metrics' shows whether it runs",
}


def _progress(args: argparse.Namespace, root: Root) -> Answer:
    given = {"step": args.step, "steps": args.steps, "step_seconds": args.step_seconds}
    values = {name: value for name, value in given.items() if value is not None}
    if not all(math.isfinite(value) for value in values.values()):
        raise UsageError("the figures must be finite numbers")
    answer = job_progress.send(root, "train", values)
    if answer == job_progress.ACCEPTED:
        return Answer(GOOD, "accepted", {"taken": True})
    return Answer(BAD, f"not accepted: {_NOT_ACCEPTED.get(answer, answer)}", {"taken": False})


def _credentials(args: argparse.Namespace, root: Root) -> Answer:
    if os.geteuid() != 0 and root.is_this_machine:
        return Answer(UNKNOWN, "only root can create them: run this with sudo", {"created": False})
    created = credentials.ensure(root, args.folder, args.group)
    return Answer(GOOD, "created" if created else "unchanged", {"created": created})


def _exporter(_args: argparse.Namespace, root: Root) -> Answer:
    from ..machine.cluster_settings import cluster_of
    from ..metrics.exporter import own_address, start

    settings, cluster = _settings(root), cluster_of(root)
    start(settings, own_address(cluster.controllers if cluster else ()))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "status": _status,
    "serve": _serve,
    "exporter": _exporter,
    "show": _show,
    "progress": _progress,
    "credentials": _credentials,
}


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action in ("serve", "show", "exporter"):
        require_this_machine(root, f"metrics {args.action}")
    return _ACTIONS[args.action](args, root)


COMMAND = Command(
    "metrics",
    "collect metrics for Prometheus, and report a job's progress",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show when the metrics were written", _STATUS),
        Action("show", "print the metrics of Slurm once", _SHOW),
        Action("progress", "in a job: report its progress", _PROGRESS, _add_progress),
        Action("serve", "collect repeatedly, as a service", _SERVE),
        Action("exporter", "run the node exporter, as a service", _EXPORTER),
        Action("credentials", "create the password of Alertmanager", _CREDENTIALS, _add_credentials),
    ),
    default="status",
)
