# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode diag: collects what support asks for, without secrets, in one archive."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Callable

from ..diag import catalog
from ..diag.archive import FOLDERS, write_bundle
from ..diag.collect import TOTAL_S
from ..diag.item import ANY, CONTROLLER
from ..diag.perform import NamedBundle, Options, capture, make
from ..machine.atomic import write_beside_users
from ..machine.root import Root
from ..machine.run import run
from ..slurm import nodes
from ..slurm.arbiter.reasons import incident_nodes
from .command import BAD, GOOD, Action, Answer, Command, UsageError, no_arguments, require_this_machine, seconds
from .terminal import counter

_DESCRIPTION = """\
Collects diagnostics of this machine for support: identity and physical host, health results, boot report, kernel log,
GPUs and fabric, services, settings, and Slurm's state on the controller. No root is needed to read the archive. Its
first page is index.html.

Keys, tokens, user data, environments and command lines of processes are never read. Settings show only values that are
known to be harmless. Everything else is searched for patterns of secrets. The command only reads, has time and size
limits, and can be used while a job runs.
"""
_COLLECT = """\
Collects the diagnostics, and prints the path of the archive. If the disk is full, it is written to /run/hpcai/diag, in
memory. Without root, items that only root can read are missing.

Exit status: 0 the archive is written, 1 it is not, 3 wrong usage.
"""
_LIST = """\
Shows the catalogue: what is collected, what it may contain about people and the site, and the limits.

Exit status: 0 good.
"""
_CAPTURE = """\
Collects the diagnostics for the current faults, keeps the newest archives, and copies the new one to Blob storage if
/etc/hpcai/diag.json says so. hpcai-diag.service calls it when a check finds a fault that requires a restart or
replacement.

Exit status: 0 done, 1 the archive could not be written or copied, 2 the settings are invalid.
"""
_INCIDENT = """\
Shows, on the controller, the nodes that are drained for their health, down, or do not answer.

Exit status: 0 they are known, 1 slurmctld does not answer.
"""
CAPTURE_S = 300.0
"""The role ``health_checks`` lets the arbiter wait longer than this before it restarts the node."""


def _add_collect(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--output", metavar="PATH", help=f"where to write the archive, or '-' ({FOLDERS[0]})")
    add("--with", dest="extra", action="append", choices=catalog.EXTRA, default=[], help="also run this tool")
    add("--limit", type=seconds, default=TOTAL_S, metavar="SECONDS", help=f"total time limit in seconds ({TOTAL_S:g})")
    add("--pseudonyms", action="store_true", help="replace names of users and machines, and addresses")
    add("--salt", metavar="TEXT", default="", help="any text, for the same pseudonyms on several machines (random)")


def _execute(args: argparse.Namespace) -> Answer:
    return _ACTIONS[args.action](args)


def _collect(args: argparse.Namespace) -> Answer:
    if args.salt and not args.pseudonyms:
        raise UsageError("--salt needs --pseudonyms")
    root = Root(args.root)
    options = Options(frozenset(args.extra), args.limit, args.salt if args.pseudonyms else None)
    with counter("diag", "item", args.json) as show:
        made = make(root, options, report=show)
    if args.output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(made.bundle.data)
        return Answer(GOOD, "")
    path = _write(root, made, args.output)
    _write_names(made, path)
    data = {"path": path, **made.bundle.summary()}
    words = f"{path}: {data['bytes'] >> 10} KiB, {data['hidden']} values hidden, {len(data['missing'])} items missing"
    return Answer(GOOD, words, {**data, "index": made.bundle.index})


def _write(root: Root, made: NamedBundle, output: str | None) -> str:
    if output is None:
        folders = FOLDERS if os.geteuid() == 0 or not root.is_this_machine else (os.getcwd(),)
        return write_bundle(root, made.bundle, folders)
    if os.path.isdir(output):
        return write_bundle(Root(), made.bundle, (os.path.abspath(output),))
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(made.bundle.data)
    return str(output)


def _write_names(made: NamedBundle, path: str) -> None:
    """Write the names behind the pseudonyms beside the archive, never into it."""
    if made.names:
        write_beside_users(f"{path}.names.json", json.dumps(made.names, indent=1, sort_keys=True) + "\n", mode=0o600)


def _list(_args: argparse.Namespace) -> Answer:
    where = {ANY: "", CONTROLLER: "controller"}
    items = [
        {
            "name": item.name,
            "title": item.title,
            "holds": item.holds,
            "on": item.on,
            "limit_s": item.limit_s,
            "most_kib": item.most_kib,
            "extra": item.extra,
        }
        for item in catalog.CATALOG
    ]
    lines = [
        f"{item.name:22} {where.get(item.on, item.on):11} {item.limit_s:4g} s {item.most_kib:6} KiB  {item.title}"
        f"{' (on request)' if item.extra else ''}; may contain {item.holds}"
        for item in catalog.CATALOG
    ]
    return Answer(GOOD, "\n".join(lines), {"items": items})


def _capture(args: argparse.Namespace) -> Answer:
    done = capture(Root(args.root), CAPTURE_S)
    words = [done.path, *([done.problem] if done.problem else []), *(f"removed {name}" for name in done.removed)]
    return Answer(BAD if done.problem else GOOD, "\n".join(words), done.as_data())


def _incident(args: argparse.Namespace) -> Answer:
    require_this_machine(Root(args.root), "diag incident")
    found = incident_nodes(nodes.read_nodes(run))
    lines = [f"{name}: {reason}" for name, reason in found.items()]
    return Answer(GOOD, "\n".join(lines) or "no node is drained for its health or down", {"nodes": found})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "collect": _collect,
    "list": _list,
    "capture": _capture,
    "incident": _incident,
}

COMMAND = Command(
    "diag",
    "diagnostics for support in one archive, without secrets",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("collect", "collect the diagnostics of this machine", _COLLECT, _add_collect),
        Action("list", "show what is collected", _LIST),
        Action("capture", "collect the diagnostics for the current faults, as a service", _CAPTURE),
        Action("incident", "on the controller: show the nodes with a fault", _INCIDENT),
    ),
    default="collect",
)
