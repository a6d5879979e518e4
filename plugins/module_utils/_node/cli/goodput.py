# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode goodput: what the time of the nodes was used for, and how reliable they are, on the controller."""

from __future__ import annotations

import argparse
import calendar
import re
import time
from dataclasses import replace

from ..ledger import gather, output
from ..machine.atomic import write_beside_users, write_file
from ..machine.root import Root
from ..machine.run import run
from ..slurm.private_data import SHOW_CONFIG, hides_users
from .command import GOOD, UNKNOWN, Answer, Command, UsageError

_DESCRIPTION = """\
Shows for a period of time what each node-second was used for: work that a checkpoint kept, lost work, start of a job,
waiting after a requeue, idle, drained by a check or by people, down, or unknown. Each node-second belongs to exactly
one of these. Also shows the effective training time ratio of trainings, how often nodes fail, with a 90 % confidence
interval, and the nodes that cost the most.

The sources are slurmdbd's runs of jobs and events of nodes, the times at which checkpoints became complete in their
stores, and the arbiter's log of machines. A restart of a daemon or an exporter does not change the result. Without
checkpoints, it is not known which work was kept and which was lost.

A job belongs to a training if its comment contains hpcai:training=NAME.

Settings are in /etc/hpcai/goodput.json: days, stores, prices, region, metrics. With --since, --until, --training or
--store, the text file in the folder of the setting metrics stays as it is. Run the command as root on the controller.

  hpcnode goodput --since 30d
  hpcnode goodput --since 2026-11-01 --until 2026-12-01 --html november.html
  hpcnode goodput --training llama-70b

Exit status: 0 computed, 1 slurmdbd does not answer, 2 the settings are invalid, 3 wrong usage.
"""
_SPAN = re.compile(r"(\d{1,4})([hd])")
_UNITS = {"h": 3600.0, "d": 86400.0}
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="start: hours or days as 12h or 30d, or a time in UTC as 2026-11-01 (7d)")
    add("--until", metavar="TIME", help="end, in the same form (now)")
    add("--training", metavar="NAME", default="", help="list the work of this training only")
    add("--jobs", metavar="LIST", default="", help="jobs of --training that have no comment, as 12,13")
    add("--store", metavar="URL", action="append", default=[], help="a further store of checkpoints")
    add("--prices", metavar="FILE", help="a price file, instead of the one in the settings")
    add("--region", metavar="NAME", help="region of the prices (that of the settings)")
    add("--html", metavar="FILE", help="also write an HTML page to this file")
    add("--metrics", metavar="DIR", help="also write a text file for Prometheus into this folder")


def _execute(args: argparse.Namespace) -> Answer:
    root, now = Root(args.root), time.time()
    if not root.is_this_machine:
        words = "goodput works on the running machine only: leave out --root"
        return Answer(UNKNOWN, words, {"reason": words})
    settings = gather.read_settings(root)
    asked = _asked(args, settings.days, now)
    stores = (*settings.stores, *(gather.Series(url, args.training) for url in args.store))
    settings = replace(settings, stores=stores)
    for name in ("prices", "region"):
        if getattr(args, name) is not None:
            settings = replace(settings, **{name: getattr(args, name)})
    ledger, rates = gather.gather(root, run, settings, asked)
    data = output.as_data(ledger, rates)
    if args.html:
        write_beside_users(args.html, output.page(data))
    metrics = settings.metrics if args.metrics is None else args.metrics
    # Prometheus' graphs would mix these figures with those of the settings' window.
    if args.metrics is None and (args.since or args.until or args.training or args.store):
        metrics = ""
    if metrics:
        hide_users = hides_users(run(SHOW_CONFIG).stdout)
        write_file(root.at(f"{metrics}/{output.METRICS_FILE}"), output.metrics(data, now, hide_users))
    return Answer(GOOD, output.text(data), data)


def _asked(args: argparse.Namespace, days: float, now: float) -> gather.LedgerScope:
    until = min(_moment(args.until, now), now) if args.until else now
    since = _moment(args.since, now) if args.since else until - days * _UNITS["d"]
    if since >= until:
        raise UsageError("--since must be before --until and before now")
    if args.jobs and not args.training:
        raise UsageError("--jobs needs --training")
    if args.training and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", args.training):
        raise UsageError("--training must be a name of letters, digits and ._-")
    if not re.fullmatch(r"(\d{1,9}(,\d{1,9})*)?", args.jobs):
        raise UsageError("--jobs must be numbers of jobs, separated by commas")
    # Slurm's times are whole seconds.
    return gather.LedgerScope(
        float(int(since)), float(int(until)), args.training, tuple(map(int, filter(None, args.jobs.split(","))))
    )


def _moment(text: str, now: float) -> float:
    span = _SPAN.fullmatch(text)
    if span:
        return now - int(span[1]) * _UNITS[span[2]]
    for form in _FORMATS:
        try:
            return float(calendar.timegm(time.strptime(text, form)))
        except ValueError:
            continue
    raise UsageError(f"{text!r} is not a time: use 12h, 30d, 2026-11-01 or 2026-11-01T12:00")


COMMAND = Command(
    "goodput",
    "what the nodes' time was used for, and how reliable they are",
    _DESCRIPTION,
    _add_arguments,
    _execute,
)
