# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode slurm: dumps and restores the queue and the accounting, protects slurmd's spool, and records its start."""

from __future__ import annotations

import argparse
import dataclasses

from ..machine.config import ConfigError
from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..machine.run import CommandFailed, run
from ..slurm import slurmd
from ..slurm.dump import make_dump
from ..slurm.restore import restore
from ..slurm.spool import NotNow, protect
from ..slurm.state import LOCK, Refused, StatePaths, dumps_in, read_manifest, read_place
from .command import GOOD, UNKNOWN, Action, Answer, Command, add_lock_timeout, no_arguments

_DESCRIPTION = """\
Backs up what a controller must not lose: slurmctld's queue (StateSaveLocation) and slurmdbd's database. The role
hpcai.azure.slurm writes the settings to /etc/hpcai/slurm_state.json.

It also protects slurmd's spool on compute nodes, and records what slurmd started with.
"""
_STATUSES = """\
Exit status: 0 good or done, 1 refused or failed, 2 there are no settings.
"""
_DUMP = f"""\
Copies queue and database to a new folder below the configured folder (slurm_dump_path), or below --to, while the
daemons run. The new folder appears only when it is complete. Then the oldest dumps are removed, until the configured
number is left. hpcai-slurm-dump.timer calls dump. The queue in a dump may be about 10 seconds old, because slurmctld
saves it that often.

{_STATUSES}"""
_RESTORE = f"""\
Restores one dump, or the newest in a folder of dumps: it stops slurmctld and slurmdbd, restores the database and the
state, and starts them. It refuses if jobs would be lost, if the dump is of another cluster, and if the installed Slurm
cannot read it. --force restores although jobs would be lost, and keeps the previous state beside the new one, in a
folder whose name ends with .before-restore.

{_STATUSES}"""
_LIST = f"""\
Shows the dumps.

{_STATUSES}"""
_SPOOL = f"""\
Mounts a small file system on slurmd's spool FOLDER and reserves half of it for root, so that no job can fill it.
slurmd's unit calls it before each start. While jobs run, it changes nothing.

{_STATUSES}"""
_STARTED = f"""\
Records the configuration that slurmd started with. With this record, site.yml restarts slurmd only for a change that
needs it. slurmd's unit calls it after each start.

{_STATUSES}"""


def _add_dump(parser: argparse.ArgumentParser) -> None:
    _add_list(parser)
    add_lock_timeout(parser)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="FOLDER", help="folder of dumps, instead of the configured one")


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER", help="a dump, or a folder of dumps")
    parser.add_argument("--force", action="store_true", help="even if jobs would be lost")
    add_lock_timeout(parser)


def _add_spool(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER", help="slurmd's spool")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action == "spool":
        return _spool(args.source, root)
    if args.action == "started":
        return _started(root)
    place = read_place(root)
    if place is None:
        raise ConfigError("no /etc/hpcai/slurm_state.json: the role hpcai.azure.slurm writes it on a controller")
    if args.action != "restore" and args.to:
        place = dataclasses.replace(place, path=args.to)
    if args.action == "list":
        return _list(place)
    if not root.is_this_machine:
        return _elsewhere(args.action)
    try:
        with only_one(LOCK, args.lock_timeout):
            if args.action == "dump":
                made = make_dump(place, run)
                return Answer(GOOD, made, {"dump": made})
            dump, aside = restore(args.source, place, root, run, force=args.force, start=True)
    except (Refused, Locked) as error:
        raise CommandFailed(str(error)) from error
    lines = [f"restored {dump}", *(f"previous content: {path}" for path in aside)]
    return Answer(GOOD, "\n".join(lines), {"dump": dump, "before": list(aside)})


def _elsewhere(action: str) -> Answer:
    return Answer(
        UNKNOWN, f"{action} works on the running machine only: leave out --root", {"reason": "not this machine"}
    )


def _started(root: Root) -> Answer:
    if not root.is_this_machine:
        return _elsewhere("started")
    if not slurmd.record_start(root, run):
        words = "slurmd has not fetched its configuration: read journalctl -u slurmd"
        return Answer(UNKNOWN, words, {"reason": words})
    return Answer(GOOD, "recorded what slurmd started with", {"recorded": True})


def _spool(folder: str, root: Root) -> Answer:
    if not root.is_this_machine:
        return _elsewhere("spool")
    try:
        done = protect(folder, root, run)
    except NotNow as error:
        return Answer(UNKNOWN, str(error), {"reason": str(error)})
    except OSError as error:
        raise CommandFailed(f"{error.filename or folder}: {error.strerror}") from error
    words = f"mounted a file system on {folder}" if done else f"a file system is already mounted on {folder}"
    return Answer(GOOD, words, {"mounted": done})


def _list(place: StatePaths) -> Answer:
    dumps = []
    for path in dumps_in(place.path):
        try:
            manifest = read_manifest(path)
        except Refused:
            continue
        dumps.append({"dump": path, **{key: manifest[key] for key in ("cluster", "made_at", "slurm")}})
    lines = [f"{one['dump']}  Slurm {one['slurm']}  {one['made_at']}" for one in dumps]
    return Answer(GOOD, "\n".join(lines) or "no dump", {"dumps": dumps})


COMMAND = Command(
    "slurm",
    "queue and accounting: dump, restore, list; slurmd: protect its spool, record its start",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("dump", "save queue and database to a new dump", _DUMP, _add_dump),
        Action("restore", "restore a dump", _RESTORE, _add_restore),
        Action("list", "show the dumps", _LIST, _add_list),
        Action("spool", "protect slurmd's spool", _SPOOL, _add_spool),
        Action("started", "record what slurmd started with", _STARTED, no_arguments),
    ),
    ignores=True,
    refuses=("--force",),
)
