# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode elastic: scale sets that grow for jobs and shrink when they are idle, on the controller."""

from __future__ import annotations

import argparse
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping

from ..elastic.settings import FILE, Settings, read_settings
from ..machine.atomic import require_readable
from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import must, run
from ..slurm.hostlist import HostlistError, compress, expand
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments
from .service import alone, print_lines

_DESCRIPTION = """\
Slurm orders nodes of elastic sets, and hpcai-elastic.service on the controller makes Azure create and delete instances.
The role hpcai.azure.elastic writes its settings to /etc/hpcai/elastic.json.
"""
_STATUS = """\
Shows the state of each slot after the daemon's last pass: its lease, its order, or why it failed.

Exit status: 0 all is well, 1 an administrator has to act, 2 something could not be read, or the daemon does not run.
"""
_PAUSE = "Nothing is ordered, bound or deleted in these sets until 'hpcnode elastic resume'. Without a set: in all.\n"
_RESUME = """\
Ends a pause, and opens sets that a quota, missing rights or machines that never join have stopped. Without a set: all.
"""
_KEEP = """\
Keeps nodes when they are idle, for a time such as 90m, 8h or 2d; 0 ends it. It does not create nodes.
"""
_ADOPT = """\
Lets Slurm power up as many free slots as the set has instances without a lease, for example instances that somebody
created in the portal. The daemon gives them to these slots. Without this, it deletes them after some minutes, unless a
job needs them.
"""
_COST = """\
Shows node-hours and their list price by set and user, and how many hours no job used.
"""
_RUN = "Makes passes until SIGTERM. hpcai-elastic.service calls it.\n"
_PROGRAMS = ("resume", "suspend", "resume-fail")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MISSED_S = 120.0


def _add_sets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sets", nargs="*", metavar="SET", help="an elastic set; all by default")


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", choices=_PROGRAMS, help="which program")
    parser.add_argument("nodes", metavar="NODES", help="a host list")


def _add_one_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", metavar="SET", help="an elastic set")


def _add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", metavar="NODES", help="a host list")
    parser.add_argument("--for", dest="time", required=True, metavar="TIME", help="such as 90m, 8h or 2d; 0 ends it")


def _add_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also show slots that are off")


def _add_since(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="DATE", help="first day, such as 2026-11-01 (the first of this month)")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action not in ("status", "cost") and not root.is_this_machine:
        raise UsageError(f"elastic {args.action} works on the running machine only: leave out --root")
    return _ACTIONS[args.action](args, root)


def _settings(root: Root) -> Settings:
    settings = read_settings(root)
    if settings is None:
        raise ConfigError(f"no {FILE}: this machine has no elastic sets; the role hpcai.azure.elastic sets them up")
    return settings


def _status(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import status

    _settings(root)
    require_readable(root, os.path.dirname(status.STATUS_FILE))
    found = status.read_status(root)
    if found is None:
        raise ConfigError("the daemon has not run yet: see 'systemctl status hpcai-elastic'")
    lines = status.lines(found, args.all)
    age = time.time() - found["time"]
    if age > _MISSED_S:
        words = f"the daemon last ran {int(age)} s ago: see 'systemctl status hpcai-elastic'"
        return Answer(UNKNOWN, "\n".join([words, *lines]), {**found, "runs": False})
    code = BAD if status.is_bad(found) else UNKNOWN if status.lacks_data(found) else GOOD
    return Answer(code, "\n".join(lines), {**found, "runs": True})


def _chosen(settings: Settings, names: list[str]) -> list[str]:
    unknown = [name for name in names if name not in settings.sets]
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: the elastic sets are {', '.join(settings.sets)}")
    return names or list(settings.sets)


def _control(root: Root, kind: str, names: list[str], words: str, until: float = 0.0) -> Answer:
    from ..elastic import spool

    now = time.time()
    spool.write(root, spool.CONTROL, kind, names, now, until)
    silent = spool.silent_s(root, now)
    if silent is not None:
        return Answer(UNKNOWN, f"{words}, as soon as hpcai-elastic.service runs", {"runs": False})
    return Answer(GOOD, words, {"runs": True, "names": names})


def _pause(args: argparse.Namespace, root: Root) -> Answer:
    names = _chosen(_settings(root), args.sets)
    return _control(root, "pause", names, f"pauses {', '.join(names)}")


def _resume(args: argparse.Namespace, root: Root) -> Answer:
    names = _chosen(_settings(root), args.sets)
    return _control(root, "resume-set", names, f"opens {', '.join(names)}")


def _program(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import spool

    try:
        words = spool.serve_program(root, args.program, args.nodes, run, time.time())
    except HostlistError as error:
        raise UsageError(str(error)) from None
    return Answer(BAD if words else GOOD, words)


def _keep(args: argparse.Namespace, root: Root) -> Answer:
    settings = _settings(root)
    given = re.fullmatch(r"([0-9]{1,5})([smhd])|0", args.time)
    if not given:
        raise UsageError(f"--for {args.time}: give a number with s, m, h or d, such as 8h, or 0")
    seconds = int(given[1]) * _UNITS[given[2]] if given[1] else 0
    try:
        names = expand(args.nodes)
    except HostlistError as error:
        raise UsageError(str(error)) from None
    strange = [name for name in names if settings.set_of(name) is None]
    if strange:
        raise UsageError(f"{', '.join(strange)}: not a node of an elastic set")
    words = f"keeps {args.nodes} for {args.time}" if seconds else f"no longer keeps {args.nodes}"
    return _control(root, "keep", names, words, time.time() + seconds if seconds else 0.0)


def _adopt(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import status

    settings = _settings(root)
    [name] = _chosen(settings, [args.set])
    found = status.read_status(root)
    one = (found or {}).get("sets", {}).get(name)
    if one is None:
        raise ConfigError("the daemon has not run yet: see 'systemctl status hpcai-elastic'")
    free = [slot["slot"] for slot in one["slots"] if slot["state"] == status.OFF]
    slots = free[: len(one["strangers"])]
    if not slots:
        words = "no free slot" if one["strangers"] else "no instance without a lease"
        return Answer(GOOD if free else BAD, f"{name} has {words}", {"slots": []})
    must(run(["scontrol", "update", f"NodeName={compress(slots)}", "State=POWER_UP"]))
    return Answer(GOOD, f"{', '.join(slots)} get the instances without a lease", {"slots": slots})


def _cost(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import cost

    settings = _settings(root)
    require_readable(root, os.path.dirname(cost.FILE))
    since = args.since or f"{cost.date_of(time.time())[:7]}-01"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", since):
        raise UsageError(f"--since {since}: give a date such as 2026-11-01")
    found = cost.summary(cost.read(root), settings, since)
    return Answer(GOOD, "\n".join(cost.lines(found)), found)


def _run(_args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic.daemon import LOCK, Daemon

    settings = _settings(root)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_given: ended.set())
    with alone(root, LOCK, "daemon", "hpcai-elastic"):
        return print_lines(Daemon(root, run, settings).serve(ended.is_set))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "status": _status,
    "pause": _pause,
    "resume": _resume,
    "keep": _keep,
    "adopt": _adopt,
    "cost": _cost,
    "run": _run,
    "program": _program,
}

COMMAND = Command(
    name="elastic",
    summary="scale sets that grow for jobs and shrink when idle, on the controller",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("status", "show the state of each slot", _STATUS, _add_all),
        Action("pause", "order and delete nothing", _PAUSE, _add_sets),
        Action("resume", "end a pause, and open stopped sets", _RESUME, _add_sets),
        Action("keep", "keep idle nodes for a time", _KEEP, _add_keep),
        Action("adopt", "use instances that somebody else created", _ADOPT, _add_one_set),
        Action("cost", "show node-hours and their list price", _COST, _add_since),
        Action("run", "make passes, as a service", _RUN),
        # slurmctld's ResumeProgram and its like call it as SlurmUser.
        Action("program", "leave a request of Slurm for the daemon", "", _add_program, listed=False),
    ),
    default="status",
)
