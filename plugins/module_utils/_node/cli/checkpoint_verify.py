# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode checkpoint verify and archive, and the lineage and signature of checkpoints."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Callable

from ..machine.run import CommandFailed
from .checkpoint_store import Opened, url_of
from .command import BAD, GOOD, UNKNOWN, Answer, UsageError

if TYPE_CHECKING:
    from ..job.checkpoint.attest import Verifier
    from ..job.checkpoint.manifest import BadManifest, JobManifest
    from ..job.checkpoint.names import Id
    from ..job.checkpoint.store import Store


def attester(args: argparse.Namespace, store: Store) -> Callable[[JobManifest], None] | None:
    """Return what writes lineage and signature of a complete checkpoint; None if neither is wanted."""
    from ..job.azcopy.location import parse_location
    from ..job.checkpoint.attest import attest, read_lineage

    if not (args.sign or args.lineage):
        return None
    address = parse_location(url_of(args)).address
    # Read for each checkpoint: a job's preflight writes it while the watcher may run already.
    return lambda manifest: attest(
        store,
        manifest,
        address,
        read_lineage(args.lineage) if args.lineage and os.path.exists(args.lineage) else "",
        args.sign,
    )


def require_signature(args: argparse.Namespace, store: Store, manifest: JobManifest) -> None:
    """Verify a signature before a restore.

    :raises Damaged: there is none, or it is invalid.
    """
    from ..job.azcopy.location import parse_location
    from ..job.checkpoint.attest import Verifier

    Verifier(store, parse_location(url_of(args)).address).signer(manifest, required=True)


def verify(args: argparse.Namespace) -> Answer:
    """Verify checkpoints of one or several stores."""
    if args.all and (args.step is not None or args.id):
        raise UsageError("--all verifies every checkpoint: leave out --step and --id")
    stores = args.stores or [url_of(argparse.Namespace(store="", action="verify"))]
    found = [one for url in stores for one in _verified(argparse.Namespace(**{**vars(args), "store": url}))]
    lines = [": ".join(filter(None, (one["store"], one["id"], one["words"]))) for one in found]
    states = {one["verdict"] for one in found}
    status = BAD if "fail" in states else UNKNOWN if "unknown" in states else GOOD
    return Answer(status, "\n".join(lines), {"checkpoints": found})


def _verified(args: argparse.Namespace) -> list[dict[str, Any]]:
    from ..job.azcopy.location import parse_location
    from ..job.checkpoint.attest import Bounded, Verifier
    from ..job.checkpoint.manifest import all_completed

    address = parse_location(args.store).address
    try:
        with Opened(args, None) as opened:
            store = Bounded(opened)
            newest = list(all_completed(store).items())[::-1]
            if args.id or args.step is not None:
                newest = [one for one in newest if args.id in (None, one[0].text) and args.step in (None, one[0].step)]
            verifier = Verifier(store, address)
            chosen = newest if args.all or args.id or args.step is not None else newest[:1]
            found = [_verdict(args, store, verifier, address, id_, manifest) for id_, manifest in chosen]
            # A store that lost everything must not look good beside others.
            return found or [_unknown(address, "there is no such complete checkpoint")]
    except CommandFailed as error:
        return [_unknown(address, str(error))]


def _unknown(address: str, words: str) -> dict[str, Any]:
    return {"store": address, "id": "", "verdict": "unknown", "words": words, "signer": "", "lineage": {}}


def _verdict(
    args: argparse.Namespace,
    store: Store,
    verifier: Verifier,
    address: str,
    id_: Id,
    manifest: JobManifest | BadManifest,
) -> dict[str, Any]:
    from ..job.checkpoint.attest import check_files, lineage_of
    from ..job.checkpoint.manifest import BadManifest, NewerManifest
    from ..job.checkpoint.restore import Damaged

    signer, lineage = "", {}
    try:
        if isinstance(manifest, BadManifest):
            raise manifest
        signer = verifier.signer(manifest, args.signed)
        check_files(store, manifest, args.full)
        lineage = lineage_of(store, manifest.id)
        how = "hashes" if args.full else "names and sizes"
        words, verdict = f"{manifest.size} bytes are intact ({how} compared)", "pass"
        words += f", signed for {signer}" if signer else ", not signed"
    except NewerManifest as error:
        words, verdict = str(error), "unknown"
    except (Damaged, BadManifest) as error:
        words, verdict = str(error), "fail"
    except CommandFailed as error:
        words, verdict = str(error), "unknown"
    found = {"store": address, "id": id_.text, "verdict": verdict, "words": words}
    return {**found, "signer": signer, "lineage": lineage}


def archive_outputs(args: argparse.Namespace) -> Answer:
    """Upload logs and reports of a job."""
    from ..job.checkpoint.attest import archive

    if not os.path.isdir(args.folder):
        raise UsageError(f"{args.folder} does not exist")
    files = [path for path in args.files if os.path.isfile(path)]
    missing = [path for path in args.files if path not in files]
    with Opened(args, None) as store:
        names = archive(store, args.folder, files)
    found = {"archived": names, "missing": missing}
    text = f"{len(names)} files are in outputs/ of the store"
    if missing:
        return Answer(BAD, f"{text}; these do not exist: {', '.join(missing)}", found)
    return Answer(GOOD, text, found)
