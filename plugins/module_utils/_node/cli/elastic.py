# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode elastic: scale sets that grow for jobs and shrink when they are idle, on the controller."""

from __future__ import annotations

import argparse
import calendar
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
from ..machine.run import CommandFailed, must, run
from ..slurm.hostlist import HostlistError, compress, expand
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments, require_this_machine
from .service import alone, print_lines

_DESCRIPTION = """\
An elastic set is a scale set that grows when jobs need nodes, and shrinks when nodes are idle. Slurm orders nodes of
the set, and hpcai-elastic.service on the controller makes Azure create and delete instances. A slot is the name of a
node of the set; a lease records which instance has this name. The role hpcai.azure.elastic writes the settings to
/etc/hpcai/elastic.json.
"""
_STATUS = """\
Shows the state of each slot after the daemon's last pass: its lease, its order, or why it failed.

Exit status: 0 all is well, 1 an administrator has to act, 2 something could not be read, or the daemon does not run.
"""
_DONE = "Exit status: 0 done, 2 the daemon does not run, or this machine has no elastic sets."
_PAUSE = f"""\
Stops all orders, leases and deletions of these sets, by default of all, until 'hpcnode elastic resume'.

{_DONE}
"""
_RESUME = f"""\
Ends a pause, and opens sets that stopped because of a quota, missing rights or machines that never joined. By default,
it does this for all sets.

{_DONE}
"""
_KEEP = f"""\
Keeps nodes for a time such as 90m, 8h or 2d, although they are idle; 0 ends this. It does not create nodes.

{_DONE}
"""
_RETIRE = """\
Deletes the machines of nodes: the daemon drains the nodes, waits for their jobs, powers them down and deletes their
instances. No job is ended. An existing drain reason is replaced. When a job needs the node again, it gets a new
machine. To wait for the end, repeat the command with the vmIds, because a node may have a new machine by then.

Exit status: 0 the machines are deleted, 2 some still exist.
"""
_ADOPT = """\
Lets Slurm power up as many free slots as the set has instances without a lease, for example instances that somebody
created in the portal. The daemon gives them to these slots. Without adopt, the daemon deletes such instances after some
minutes, unless a job needs them.

Exit status: 0 done, or nothing to do, 1 no slot is free, or slurmctld refuses, 2 the daemon does not run, or Azure does
not answer.
"""
_CANARY = """\
The VMIDs are the machines with an old image. The command waits until another machine of the set has joined and no
health check of the tiers boot and deep fails on it. If the set has no such machine, the command powers up a free node.
If no node is free, it first deletes the machine of an idle node. If no node is idle, it deletes the machine of a node
in use, after the node's jobs have ended. roll.yml calls canary before it replaces the machines with the old image.

Exit status: 0 passed, 1 the machine did not join or a check fails, 2 slurmctld does not answer.
"""
_SETTLE = """\
Waits until the nodes of the set that are getting a machine now have joined the cluster. Fails at once if a machine has
not joined since the time --since, was drained when it joined, or if the set is paused or orders nothing. roll.yml calls
settle after each group of machines that it has deleted.

Exit status: 0 all joined, or none is on its way, 1 one did not join.
"""
_COST = """\
Shows node-hours and their price by set, user and account, and how many hours no job used. The hours of accounts are
those of their jobs, from slurmdbd; jobs that share a node share its time.

Exit status: 0 good, 2 the settings are missing or invalid, 3 wrong usage.
"""
_RUN = "Makes passes until SIGTERM. hpcai-elastic.service calls it.\n"
_PROLOG = "prolog"
_PROGRAMS = ("resume", "suspend", "resume-fail", _PROLOG)
_VM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
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
    parser.add_argument(
        "--for", dest="time", required=True, metavar="TIME", help="how long, such as 90m, 8h or 2d; 0 ends it"
    )


def _add_retire(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="a host list of nodes, or a machine's vmId")
    parser.add_argument(
        "--reason", default="its instance will be deleted", help="the drain reason that users see (%(default)s)"
    )


def _add_canary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", metavar="SET", help="an elastic set")
    parser.add_argument("old", nargs="*", metavar="VMID", help="the vmId of a machine with an old image")
    parser.add_argument("--timeout", type=int, default=86400, metavar="SECONDS", help="how long to wait (86400)")


def _add_settle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", metavar="SET", help="an elastic set")
    parser.add_argument(
        "--since", type=int, default=0, metavar="SECONDS", help="ignore failures up to this time since 1970 (none)"
    )
    parser.add_argument("--timeout", type=int, default=3600, metavar="SECONDS", help="how long to wait (3600)")


def _add_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also show slots that are off")


def _add_since(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="DATE", help="first day, such as 2026-11-01 (the first of this month)")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action not in ("status", "cost"):
        require_this_machine(root, f"elastic {args.action}")
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
    from ..elastic import boot_wait, spool

    if args.program == _PROLOG:
        return Answer(GOOD, boot_wait.wait(root, os.environ.get("SLURM_JOB_ID", ""), args.nodes, run))
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
    names = _slots_in(args.nodes, settings)
    words = f"keeps {args.nodes} for {args.time}" if seconds else f"no longer keeps {args.nodes}"
    return _control(root, "keep", names, words, time.time() + seconds if seconds else 0.0)


def _retire(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import spool, status

    settings = _settings(root)
    vm_ids = {name.lower() for name in args.names if _VM_ID.fullmatch(name)}
    names = [slot for name in args.names if not _VM_ID.fullmatch(name) for slot in _slots_in(name, settings)]
    found = status.read_status(root)
    if found is None:
        raise ConfigError("the daemon has not run yet: see 'systemctl status hpcai-elastic'")
    known = status.machines(found)
    machines = {name: vm_id for name, vm_id in known.items() if name in names or vm_id in vm_ids}
    if not machines:
        return Answer(GOOD, "no machine is left", {"machines": {}})
    now = time.time()
    spool.write(root, spool.CONTROL, "retire", list(machines.values()), now, words=args.reason)
    words = f"{', '.join(machines)}: the instances are deleted when their jobs have ended"
    if spool.silent_s(root, now) is not None:
        words += ", as soon as hpcai-elastic.service runs"
    return Answer(UNKNOWN, words, {"machines": machines})


def _slots_in(nodes: str, settings: Settings) -> list[str]:
    try:
        names = expand(nodes)
    except HostlistError as error:
        raise UsageError(str(error)) from None
    strange = [name for name in names if settings.set_of(name) is None]
    if strange:
        raise UsageError(f"{', '.join(strange)}: not a node of an elastic set")
    return names


def _adopt(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import status

    settings = _settings(root)
    [name] = _chosen(settings, [args.set])
    if status.read_status(root) is None:
        raise ConfigError("the daemon has not run yet: see 'systemctl status hpcai-elastic'")
    found = status.read_again(root, name)
    if found is None:
        return Answer(UNKNOWN, "the daemon has not read the set in time: see 'systemctl status hpcai-elastic'")
    one = found["sets"].get(name)
    if one is None:
        raise ConfigError(f"the daemon does not know {name} yet: run 'systemctl restart hpcai-elastic'")
    if not one["strangers"] and found["problems"]:
        return Answer(UNKNOWN, f"{name} has no known instance without a lease, but: {found['problems'][0]}")
    free = [slot["slot"] for slot in one["slots"] if status.is_free(slot)]
    slots = free[: len(one["strangers"])]
    if not slots:
        words = "no free slot" if one["strangers"] else "no instance without a lease"
        return Answer(GOOD if free else BAD, f"{name} has {words}", {"slots": []})
    must(run(["scontrol", "update", f"NodeName={compress(slots)}", "State=POWER_UP"]))
    return Answer(GOOD, f"{', '.join(slots)} get the instances without a lease", {"slots": slots})


def _canary(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic.canary import Canary

    [name] = _chosen(_settings(root), [args.set])
    strange = [one for one in args.old if not _VM_ID.fullmatch(one)]
    if strange:
        raise UsageError(f"{', '.join(strange)}: not a vmId")
    passed, words = Canary(root, name, {one.lower() for one in args.old}, run).watch(args.timeout)
    return Answer(GOOD if passed else BAD, words, {"passed": passed})


def _settle(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import settle

    [name] = _chosen(_settings(root), [args.set])
    joined, words = settle.wait(root, name, args.since, args.timeout)
    return Answer(GOOD if joined else BAD, words, {"joined": joined})


def _cost(args: argparse.Namespace, root: Root) -> Answer:
    from ..elastic import cost

    settings = _settings(root)
    require_readable(root, os.path.dirname(cost.FILE))
    since = args.since or f"{cost.date_of(time.time())[:7]}-01"
    try:
        began = float(calendar.timegm(time.strptime(since, "%Y-%m-%d")))
    except ValueError:
        raise UsageError(f"--since {since}: give a date such as 2026-11-01") from None
    # As the days of the file are written: strptime also reads 2026-1-1.
    since = cost.date_of(began)
    accounts, problem = _accounts(settings, began, root)
    found = cost.summary(cost.read(root), cost.read_prices(root, settings), since, accounts)
    return Answer(GOOD, "\n".join([*cost.lines(found), *([problem] if problem else [])]), found)


def _accounts(settings: Settings, began: float, root: Root) -> tuple[Mapping[str, Mapping[str, float]] | None, str]:
    """Return node-hours by set and account, and why they are not known."""
    from ..ledger import accounts

    if not root.is_this_machine:
        return None, ""
    try:
        return accounts.node_hours(began, time.time(), settings.owner_of), ""
    except (CommandFailed, OSError) as error:
        return None, f"accounts are not known: {error}"


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
    "retire": _retire,
    "adopt": _adopt,
    "canary": _canary,
    "settle": _settle,
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
        Action("retire", "delete machines when their jobs have ended", _RETIRE, _add_retire),
        Action("adopt", "use instances that somebody else created", _ADOPT, _add_one_set),
        Action("canary", "check one machine with a new image", _CANARY, _add_canary),
        Action("settle", "wait until new machines have joined", _SETTLE, _add_settle),
        Action("cost", "show node-hours and their list price", _COST, _add_since),
        Action("run", "run the daemon", _RUN),
        # slurmctld's ResumeProgram and its like call it as SlurmUser.
        Action("program", "leave a request of Slurm for the daemon", "", _add_program, listed=False),
    ),
    default="status",
)
