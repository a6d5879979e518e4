# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode checkpoint: a job's checkpoints in Blob storage; only complete ones are restored."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable

from ..machine.atomic import write_file
from ..machine.job_progress import Reporter
from ..machine.root import Root
from ..machine.run import CommandFailed
from .checkpoint_actions import ACTIONS, DESCRIPTION
from .checkpoint_store import Opened
from .checkpoint_verify import archive_outputs, attester, require_signature, verify
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError, no_arguments

if TYPE_CHECKING:
    from ..job.checkpoint.directory import Signal
    from ..job.checkpoint.manifest import JobManifest
    from ..job.checkpoint.names import Id, Member
    from ..job.checkpoint.store import Store
    from ..job.checkpoint.watch import Watcher


def _execute(args: argparse.Namespace) -> Answer:
    given = vars(args)
    if given.get("every", 1) <= 0 or given.get("leftover_hours", 1) <= 0:
        raise UsageError("--every and --leftover-hours must be more than 0")
    if min(given.get("wait", 0), given.get("keep_every", 0), given.get("within", 0)) < 0:
        raise UsageError("--wait, --within and --keep-every must be 0 or more")
    if given.get("keep_last") is not None and args.keep_last < 1:
        raise UsageError("--keep-last must be at least 1: the newest checkpoint is always kept")
    for name in (given.get("latest_file"), given.get("marker")):
        if name is not None and (not name or "/" in name or name in (".", "..")):
            raise UsageError(f"{name!r} is not a file name: --marker and --latest-file take a name without a folder")
    if "folder" in given:
        args.folder = os.path.abspath(args.folder)
    return _EXECUTED[args.action](args)


def _watch(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.prune import Retention
    from ..job.checkpoint.watch import Watcher, WatchOptions

    member = _member(args)
    keep = None
    if args.keep_last is not None:
        keep = Retention(args.keep_last, args.keep_every, args.leftover_hours * 3600, member.attempt)
    with Opened(args, member) as store:
        options = WatchOptions(
            args.folder,
            _signal(args),
            member,
            _host(),
            args.shared,
            keep,
            args.every,
            args.acknowledge,
            attester(args, store),
        )
        from ..job.events.exchange import read_events_file, send_ready

        root = Root(args.root)
        watcher = Watcher(options, store, lambda: read_events_file(root), lambda event_id: send_ready(root, event_id))
        return _run(watcher, args)


class _Deadline:
    """How long --once works: until nothing of its own advances for ``wait_s``, or the job's time limit is near.

    :param wait_s: for other nodes, and for uploads that fail. A long upload is not cut.
    :param near_limit: a file that exists since the time limit is near; empty for none.
    :param within_s: how long it may work from then on.
    """

    def __init__(self, wait_s: float, near_limit: str, within_s: float) -> None:
        self._wait_s, self._near_limit, self._within_s = wait_s, near_limit, within_s
        self._deadline = time.monotonic() + wait_s
        self._carried = 0

    def ends(self, watcher: Watcher) -> bool:
        """Return whether to end now; called at each turn."""
        now, carried = time.monotonic(), watcher.carried
        # azcopy ends an upload that stalls. Until the next success, only bytes show that a retry does not stall too.
        if watcher.is_uploading and (carried > self._carried or not watcher.status.problem):
            self._deadline = now + self._wait_s
        self._carried = carried
        return now > self._deadline or self._is_late()

    def _is_late(self) -> bool:
        try:
            return bool(self._near_limit) and time.time() > os.stat(self._near_limit).st_mtime + self._within_s
        except OSError:
            return False


def _run(watcher: Watcher, args: argparse.Namespace) -> Answer:
    ended = threading.Event()
    kept = {number: signal.signal(number, lambda *_given: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    deadline = _Deadline(args.wait, args.near_limit, args.within)
    shown: list[str] = []
    reporter = Reporter(Root(args.root), "checkpoint")
    try:
        while not ended.is_set():
            watcher.turn()
            reporter.report(**watcher.status.figures())
            lines = watcher.status.events_to_report()
            sys.stderr.write("".join(f"hpcnode checkpoint: {line}\n" for line in lines if line not in shown))
            sys.stderr.flush()
            shown = lines
            if args.once and (watcher.idle or deadline.ends(watcher)):
                break
            ended.wait(args.every)
    finally:
        for number, before in kept.items():
            signal.signal(number, before)
        good = watcher.end()
    good = good and (not args.once or watcher.idle)
    return Answer(GOOD if good else BAD, "\n".join(watcher.status.lines()), asdict(watcher.status))


def _save(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.directory import DEFAULT_LATEST, LATEST
    from ..job.checkpoint.manifest import complete, missing_ranks
    from ..job.checkpoint.names import LARGEST_STEP, SAVE, Id
    from ..job.checkpoint.publish import Local, publish
    from ..machine.run import wait_until

    if args.step is None or not 0 <= args.step <= LARGEST_STEP:
        raise UsageError("save needs --step, a number from 0")
    if args.save_id and not SAVE.fullmatch(args.save_id):
        raise UsageError("--save-id takes letters, digits, '.' and '_', at most 40 characters")
    member = _member(args)
    parent, _slash, folder = args.folder.rpartition("/")
    latest = ("", "")
    if args.signal == LATEST:
        name = args.latest_file or DEFAULT_LATEST
        with open(os.path.join(parent, name), encoding="utf-8") as file:
            latest = (name, file.read())
    id_ = Id(args.step, member.attempt, member.world, args.save_id)
    with Opened(args, member) as store:
        done = publish(store, Local(id_, parent or "/", folder, member.rank, args.shared, latest))
        is_complete = wait_until(lambda: complete(store, id_) is not None, args.wait, 2.0)
        attest, manifest = attester(args, store), complete(store, id_) if is_complete else None
        if attest and manifest and member.rank == 0:
            attest(manifest)
        missing = [] if is_complete else missing_ranks(store, id_)
    data = {"id": id_.text, "whole": is_complete, "missing": missing, "bytes": done.shard.size}
    data.update(carried=done.carried, seconds=round(done.seconds, 3))
    text = f"{id_.text}: {done.carried} of {done.shard.size} bytes uploaded"
    if is_complete:
        return Answer(GOOD, f"{text}; the checkpoint is complete", data)
    words = f"nodes {', '.join(map(str, missing))} did not publish" if missing else "it was pruned"
    return Answer(BAD, f"{text}; the checkpoint is not complete: {words} within {args.wait:g} s", data)


def _restore(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.manifest import completed

    if not args.to:
        raise UsageError("restore needs --to")
    if args.all and args.any_part:
        raise UsageError("--all and --any-part contradict each other")
    member = _member(args)
    alone = member.world == 1 or args.shared
    if args.fall_back and not alone:
        raise UsageError("--fall-back is for one node, or --shared: several nodes could fall back to different steps")
    if not alone and not args.id and not member.call:
        raise UsageError("all nodes must restore the same checkpoint: use one srun for all of them, or --id")
    if args.shared and member.rank:
        return Answer(GOOD, "node 0 restores", {"restored": None, "left_to": 0})
    with Opened(args, member) as store:
        checkpoints = completed(store)
        fitting = _fitting(args, checkpoints)
        if not alone and not args.id:
            fitting = _agreed(args, member, store, fitting)
            checkpoints = checkpoints if set(fitting) <= set(checkpoints) else completed(store)
        if fitting:
            return _fetch(args, member, store, checkpoints, fitting)
    if args.step is not None or args.id:
        return Answer(BAD, f"there is no complete checkpoint {args.id or f'of step {args.step}'}: see list", {})
    return Answer(GOOD, "nothing to restore: there is no complete checkpoint yet", {"restored": None, "step": None})


def _agreed(args: argparse.Namespace, member: Member, store: Store, fitting: list[Id]) -> list[Id]:
    """Return the checkpoint that node 0 has chosen, or nothing."""
    from ..job.checkpoint.restore import broadcast_choice

    chosen = broadcast_choice(store, member, lambda: fitting[0] if fitting else None, args.wait)
    return [chosen] if chosen else []


def _fetch(
    args: argparse.Namespace,
    member: Member,
    store: Store,
    checkpoints: Mapping[Id, JobManifest],
    fitting: list[Id],
) -> Answer:
    """Fetch the first of these, and with --fall-back the next ones while one is damaged."""
    from ..job.checkpoint.restore import Damaged, fetch

    to, problems = os.path.abspath(args.to), []
    for id_ in fitting if args.fall_back else fitting[:1]:
        if id_ not in checkpoints:
            raise CommandFailed(f"{id_.text}, which node 0 has chosen, is no longer complete: run srun again.")
        try:
            if args.signed:
                require_signature(args, store, checkpoints[id_])
            os.makedirs(to, exist_ok=True)
            done = fetch(store, checkpoints[id_], _ranks(args, member, checkpoints[id_]), to, _host())
        except Damaged as error:
            problems.append(str(error))
            continue
        if args.latest_file:
            write_file(os.path.join(to, args.latest_file), checkpoints[id_].folder)
        _note_restored(to, checkpoints[id_].folder, id_.text, member.rank)
        lines = [f"warning: {problem}" for problem in problems]
        lines.append(f"step {id_.step} ({id_.text}) is in {done.path}: {done.files} files, {done.size} bytes")
        lines += [f"the previous content is in {done.aside}"] if done.aside else []
        data = {"restored": id_.text, "step": id_.step, "problems": problems, **asdict(done)}
        return Answer(GOOD, "\n".join(lines), data)
    way = "there is no older one" if args.fall_back else "restore an older one on all nodes: use --step, see list"
    return Answer(BAD, "\n".join([*problems, way]), {"restored": None, "step": None, "problems": problems})


def _fitting(args: argparse.Namespace, checkpoints: Mapping[Id, JobManifest]) -> list[Id]:
    """Return the checkpoints that the arguments select, the newest first."""
    newest = list(checkpoints)[::-1]
    if args.id:
        return [id_ for id_ in newest if id_.text == args.id]
    return [id_ for id_ in newest if args.step in (None, id_.step)]


def _ranks(args: argparse.Namespace, member: Member, manifest: JobManifest) -> list[int]:
    if args.all or manifest.shared:
        return list(range(manifest.id.world))
    if args.any_part:
        return [member.rank % manifest.id.world]
    if manifest.id.world != member.world:
        raise UsageError(
            f"{manifest.id.text} is of {manifest.id.world} nodes, and this job has {member.world}: --all restores "
            "the parts of all nodes on each node, for programs that can load another number of parts, and --any-part "
            "one part, for programs of which each node saves everything"
        )
    return [member.rank]


def _note_restored(to: str, folder: str, text: str, rank: int) -> None:
    """Record the restored checkpoint, so that a watcher does not publish it again."""
    from ..job.checkpoint import state

    path = state.record_path(to, _host())
    one = state.KnownCheckpoint(folder, text, rank, state.tree_stamp(to, folder), state.RESTORED)
    state.write_record(path, state.read_record(path).put(one))


def _list(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.manifest import completed
    from ..job.checkpoint.names import SHARDS, id_in

    with Opened(args, None) as store:
        checkpoints = completed(store)
        started = {id_ for id_ in (id_in(blob.name) for blob in store.list(SHARDS)) if id_} - set(checkpoints)
    newest = list(checkpoints.values())[::-1]
    lines = [f"step {one.id.step}: {one.size} bytes of {one.id.world} nodes, {one.id.text}" for one in newest]
    partly = sorted(started, key=lambda one: one.order, reverse=True)
    lines += [f"step {id_.step}: not complete, {id_.text}" for id_ in partly]
    data: dict[str, Any] = {
        "whole": [{"id": one.id.text, "step": one.id.step, "nodes": one.id.world, "bytes": one.size} for one in newest],
        "not_whole": [id_.text for id_ in partly],
    }
    return Answer(GOOD, "\n".join(lines) or "there is no checkpoint", data)


def _prune(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.prune import Retention, prune
    from ..job.checkpoint.state import branch_line

    if args.keep_last is None:
        raise UsageError("prune needs --keep-last")
    attempt = args.attempt or (_member(args).attempt if os.environ.get("SLURM_JOB_ID") else "")
    with Opened(args, None) as store:
        keep = Retention(
            args.keep_last, args.keep_every, args.leftover_hours * 3600, attempt, branches=not args.branches
        )
        done = prune(store, keep)
    removed, leftovers, kept = ([id_.text for id_ in ids] for ids in (done.complete, done.leftovers, done.branches))
    lines = [*(f"removed {text}" for text in removed), *(f"removed incomplete {text}" for text in leftovers)]
    text = "\n".join([*(lines or ["nothing to remove"]), *map(branch_line, kept)])
    return Answer(GOOD, text, {"removed": removed, "leftovers": leftovers, "branches": kept})


def _status(args: argparse.Namespace) -> Answer:
    from ..job.checkpoint.state import read_statuses

    statuses = read_statuses(args.folder)
    if not statuses:
        return Answer(UNKNOWN, f"nothing watches {args.folder}", {"nodes": []})
    lines = [line for one in statuses for line in one.lines()]
    good = all(one.good for one in statuses)
    return Answer(GOOD if good else BAD, "\n".join(lines), {"nodes": [asdict(one) for one in statuses]})


def _member(args: argparse.Namespace) -> Member:
    from ..job.checkpoint.names import NotInJob, member_of

    try:
        return member_of(os.environ, args.attempt, args.rank, args.world)
    except NotInJob as error:
        if args.action == "restore" and args.attempt is None and not os.environ.get("SLURM_JOB_ID"):
            # A restore outside of a job only serves to inspect a checkpoint, and needs no attempt.
            return member_of(os.environ, "none", args.rank, args.world)
        raise UsageError(str(error)) from None


def _signal(args: argparse.Namespace) -> Signal:
    from ..job.checkpoint.directory import DEFAULT_LATEST, MARKER, Signal

    return Signal(args.signal, args.marker if args.signal == MARKER else args.latest_file or DEFAULT_LATEST)


def _host() -> str:
    return socket.gethostname().partition(".")[0] or "host"


_EXECUTED: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "watch": _watch,
    "save": _save,
    "restore": _restore,
    "list": _list,
    "prune": _prune,
    "status": _status,
    "verify": verify,
    "archive": archive_outputs,
}

COMMAND = Command(
    "checkpoint",
    "checkpoints in Blob storage: watch, save, restore, verify, prune",
    DESCRIPTION,
    no_arguments,
    _execute,
    actions=ACTIONS,
    ignores=True,
)
