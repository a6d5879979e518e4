# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode stage: copies a data set from Blob storage to a job's file system; each node copies its shard."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ..machine.job_progress import Reporter
from ..machine.root import Root
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError, no_arguments
from .stage_actions import ACTIONS, DESCRIPTION

if TYPE_CHECKING:
    from ..job.azcopy.tool import Azcopy
    from ..job.stage.listing import Listing
    from ..job.stage.options import StageOptions

_WORK = "stage"
"""Part of the names of folders for logs and plans."""


def _execute(args: argparse.Namespace) -> Answer:
    if args.action in _OF_ROOT:
        return _OF_ROOT[args.action](Root(args.root))
    root = Root(args.root)
    if args.action in ("run", "clean") and not root.is_this_machine:
        raise UsageError(f"stage {args.action} works on the running machine only: leave out --root")
    if args.action in ("status", "verify", "sums"):
        args.target = root.at(os.path.abspath(args.target))
    for name in ("every", "stall", "limit", "wait"):
        if not getattr(args, name, 1) > 0:
            raise UsageError(f"--{name} must be more than 0")
    for name, least in (("processes", 1), ("workers", 1), ("connections", 0)):
        given = getattr(args, name, None)
        if given is not None and given < least:
            raise UsageError(f"--{name} must be at least {least}")
    return _ACTIONS[args.action](args)


def _run(args: argparse.Namespace) -> Answer:
    from ..job.azcopy.work import keep
    from ..job.stage.apply import ShardProgress, stage

    options, tool = _prepare(args)
    try:
        listing = _common_listing(args, options, tool)
        head, reporter = f"hpcnode stage: {options.word}: ", Reporter(Root(), "stage")
        sys.stderr.write(f"{head}{len(listing.blobs)} blobs listed, listing {listing.digest}\n")

        def show(sight: ShardProgress) -> None:
            _print_progress(f"{head}{sight.in_words()}\n")
            reporter.report(**sight.figures())

        done = stage(options, tool, listing, show, args.every)
    except BaseException as error:
        raise _as_usage(_with_logs(error, tool)) from None
    if done.problem:
        keep(tool.folder)
    else:
        _sweep(tool)
    data = {**asdict(done), "shard": list(options.shard)}
    return Answer(BAD if done.problem else GOOD, f"{options.word}: {done.in_words()}", data)


def _plan(args: argparse.Namespace) -> Answer:
    from ..job.stage.apply import in_units
    from ..job.stage.options import names_for, paths_of, selected
    from ..job.stage.plan import quality_of

    options, tool = _prepare(args)
    try:
        listing = _listed(options, tool)
        chosen = selected(listing.blobs, options.pattern)
        paths_of(chosen, options.decompress)
        count = options.shard[1]
        shards = [names_for(chosen, replace(options, number=number))[0] for number in range(count)]
    except BaseException as error:
        raise _as_usage(error) from None
    finally:
        shutil.rmtree(tool.folder, ignore_errors=True)
    sizes = {blob.name: blob.size for blob in chosen}
    totals = [sum(sizes[name] for name in shard) for shard in shards]
    quality = quality_of(chosen, shards)
    lines = [f"shard {number}: {len(shard)} files, {in_units(totals[number])}" for number, shard in enumerate(shards)]
    lines.append(f"the largest shard is {(quality.ratio - 1) * 100:.2f} % above the optimum; listing {listing.digest}")
    data = {
        "digest": listing.digest,
        "ratio": round(quality.ratio, 6),
        "shards": [{"files": len(shard), "bytes": total} for shard, total in zip(shards, totals)],
    }
    return Answer(GOOD, "\n".join(lines), data)


def _status(args: argparse.Namespace) -> Answer:
    from ..job.stage.apply import in_units
    from ..job.stage.manifest import read_manifests
    from ..job.stage.options import STATE

    manifests = list(read_manifests(os.path.join(args.target, STATE)))
    if not manifests:
        return Answer(UNKNOWN, f"nothing was staged to {args.target}", {"shards": []})
    lines, shards = [], []
    for header, staged in manifests:
        total = sum(one.size for one in staged.values())
        lines.append(
            f"shard {header.number} of {header.count}: {len(staged)} files, {in_units(total)}, listing {header.digest}"
        )
        shards.append({**asdict(header), "files": len(staged), "bytes": total})
    return Answer(GOOD, "\n".join(lines), {"shards": shards})


def _verify(args: argparse.Namespace) -> Answer:
    from ..job.stage.apply import in_units
    from ..job.stage.manifest import verify
    from ..job.stage.options import STATE

    try:
        result = verify(args.target, os.path.join(args.target, STATE), args.full, args.workers or _workers())
    except FileNotFoundError:
        return Answer(UNKNOWN, f"nothing was staged to {args.target}", {})
    except ValueError as error:
        raise _as_usage(error) from None
    if args.sums:
        from ..job.stage.manifest import current_files
        from ..job.stage.sums import read_sums

        wrong = read_sums(args.sums).differences(current_files(os.path.join(args.target, STATE))[1])
        result = replace(result, problems=(*result.problems, *wrong)[:20], count=result.count + len(wrong))
    how = "hashes" if args.full else "sizes"
    staged = f"{result.files} files, {in_units(result.size)}"
    text = f"{staged} are as they were staged ({how} compared), listing {result.digest}"
    if result.count:
        more = f"\nand {result.count - len(result.problems)} more" if result.count > len(result.problems) else ""
        text = "\n".join(result.problems) + more
    return Answer(BAD if result.count else GOOD, text, asdict(result))


def _sums(args: argparse.Namespace) -> Answer:
    from ..job.stage.manifest import current_files
    from ..job.stage.options import STATE
    from ..job.stage.sums import Sums

    args.full = True
    verified = _verify(args)
    if verified.status != GOOD:
        return verified
    made = Sums({one.path: one.sha256 for one in current_files(os.path.join(args.target, STATE))[1]})
    return Answer(GOOD, made.text.rstrip("\n"), {"sums": made.files, "digest": made.digest})


def _clean(args: argparse.Namespace) -> Answer:
    from ..job.stage.options import STATE

    folder = os.path.join(args.target, STATE)
    exists = os.path.isdir(folder) and not os.path.islink(folder)
    if exists:
        shutil.rmtree(folder)
    return Answer(GOOD, f"removed {folder}" if exists else f"there is no {folder}", {"removed": exists})


def _make_folder(root: Root) -> Answer:
    from ..job.azcopy.options import read_settings
    from ..job.azcopy.work import prepare

    folder = read_settings(root).work_folder
    warnings = prepare(folder, root)
    text = "\n".join(warnings) or f"{folder or 'the folder for temporary files'} is ready"
    return Answer(GOOD, text, {"folder": folder, "warnings": warnings})


def _sweep_job(root: Root) -> Answer:
    from ..job.azcopy.options import read_settings
    from ..job.azcopy.work import sweep
    from ..machine.run import run

    job, uid = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_JOB_UID", "")
    if not job.isdecimal() or not uid.isdecimal():
        raise UsageError("sweep is called by an epilog: SLURM_JOB_ID and SLURM_JOB_UID are missing")
    folder = read_settings(root).work_folder
    removed, problems = sweep(folder, job, int(uid), root, run, time.time()) if folder else ([], [])
    text = "\n".join([*problems, *(f"removed {path}" for path in removed)]) or "nothing was left behind"
    return Answer(BAD if problems else GOOD, text, {"removed": removed, "problems": problems})


def _prepare(args: argparse.Namespace) -> tuple[StageOptions, Azcopy]:
    from ..job.azcopy.credential import SAS, credential_of
    from ..job.azcopy.location import parse_location
    from ..job.azcopy.options import Limits, cap_of, read_settings
    from ..job.azcopy.tool import Azcopy
    from ..job.azcopy.work import new_folder, parent_of
    from ..job.stage.options import StageOptions, shard_of
    from ..job.stage.sums import read_sums

    root = Root(args.root)
    settings = read_settings(root)
    try:
        place = parse_location(args.source)
        number, count = shard_of(args.shard, os.environ, planning=args.action == "plan")
        processes = args.processes or settings.processes
        account = settings.account_gbps if args.account_gbps is None else args.account_gbps
        cap = cap_of(args.cap_mbps, account, count * processes)
        connections = settings.connections if args.connections is None else args.connections
        limits = Limits(cap, connections, args.limit, args.stall)
        parent = parent_of(args.work or "", settings.work_folder)
    except ValueError as error:
        raise _as_usage(error) from None
    kind = args.credential or (SAS if args.sas_file else settings.credential)
    credential = credential_of(kind, args.client_id or settings.client_id, args.sas_file)
    folder = new_folder(_WORK, parent, str(number))
    # plan has fewer options than run.
    given = vars(args)
    options = StageOptions(
        location=place,
        target=os.path.abspath(given.get("target", ".")),
        number=number,
        count=count,
        everything=args.all,
        pattern=args.pattern,
        decompress=args.decompress,
        full=given.get("full", False),
        processes=processes,
        workers=given.get("workers") or _workers(),
        sums=read_sums(given["sums"]).files if given.get("sums") else None,
    )
    return options, Azcopy(folder, credential, limits, args.azcopy or settings.azcopy)


def _common_listing(args: argparse.Namespace, options: StageOptions, tool: Azcopy) -> Listing:
    """Return the listing that all nodes share, or this node's own listing with --all."""
    from ..job.azcopy.transfer import list_blobs
    from ..job.stage.listing import FILE, shared_listing, token_of

    os.makedirs(options.state, exist_ok=True)
    token = "" if args.shard else token_of(os.environ)
    first = options.number == 0 or options.everything
    if args.relist and not token:
        _remove(os.path.join(options.state, FILE))
    return shared_listing(
        options.state, first, token, lambda: list_blobs(tool, options.location), options.location.address, args.wait
    )


def _listed(options: StageOptions, tool: Azcopy) -> Listing:
    from ..job.azcopy.transfer import list_blobs
    from ..job.stage.listing import Listing

    return Listing(options.location.address, "", tuple(list_blobs(tool, options.location)))


def _as_usage(error: BaseException) -> BaseException:
    """Turn errors in the arguments into usage errors, but not errors in a settings file."""
    from ..machine.config import ConfigError

    if isinstance(error, ValueError) and not isinstance(error, (ConfigError, UsageError)):
        return UsageError(str(error))
    return error


def _print_progress(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _with_logs(error: BaseException, tool: Azcopy) -> BaseException:
    """Add the folder of azcopy's logs to the message if there are logs, and remove the folder otherwise."""
    from ..job.azcopy.output import BlobError
    from ..job.azcopy.work import keep

    if isinstance(error, BlobError) and any(files for _folder, _folders, files in os.walk(tool.folder)):
        keep(tool.folder)
        return BlobError(f"{error} azcopy's logs are in {tool.folder}.", error.why)
    shutil.rmtree(tool.folder, ignore_errors=True)
    return error


def _sweep(tool: Azcopy) -> None:
    """Remove what killed or failed runs of this shard of this job left, after a run that succeeded."""
    parent, name = os.path.split(tool.folder)
    prefix = name[: name.rindex("-") + 1]
    if prefix.startswith(f"hpcai-{_WORK}-none-"):
        return
    with os.scandir(parent) as entries:
        for entry in entries:
            # Folders of others have other names, and may disappear at any time.
            named = entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)
            if named and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _workers() -> int:
    return max(2, min(16, len(os.sched_getaffinity(0)) // 2))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "run": _run,
    "plan": _plan,
    "status": _status,
    "verify": _verify,
    "sums": _sums,
    "clean": _clean,
}

_OF_ROOT: Mapping[str, Callable[[Root], Answer]] = {"prepare": _make_folder, "sweep": _sweep_job}

COMMAND = Command(
    "stage",
    "copy a data set from Blob storage in shards",
    DESCRIPTION,
    no_arguments,
    _execute,
    actions=ACTIONS,
    ignores=True,
    refuses=("--source",),
)
