# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The actions of hpcnode checkpoint: what they do, and their options."""

from __future__ import annotations

import argparse

from .blob_options import add_blob_options
from .command import Action

DESCRIPTION = """\
Keeps a job's checkpoints in a folder of a Blob container (--store, or HPCAI_CHECKPOINT_STORE), as the job's user. Each
node publishes (uploads) its part. A checkpoint is complete when all nodes have published; only complete ones are
restored.

Defaults are in /etc/hpcai/blob.json. hpcnode keeps its records in the subfolder .hpcai-checkpoint of the local folder
of checkpoints.
"""
_WATCH = """\
Uploads each finished checkpoint in DIR until SIGTERM or SIGINT; with --once, only those that are finished now. A
checkpoint is a folder whose name has the step as its last number. The option --signal states how a training marks a
finished checkpoint: the folder contains the file .complete (marker), a file beside the folder contains the folder's
name (latest), or the folder is renamed to a name that ends with its step (rename).

With --once, an upload that makes progress is not cut, unless the file --near-limit exists for --within seconds.

Exit status: 0 all finished checkpoints are published, 1 one is not.
"""
_SAVE = """\
Publishes this node's part of DIR, a finished checkpoint.

Exit status: 0 the checkpoint is complete, 1 it is not, or failed.
"""
_RESTORE = """\
Fetches the newest complete checkpoint, or the one of --step or --id, verifies its hashes, and renames it into place.
Run it on all nodes with one srun. If there is no checkpoint, it says so and exits with 0.

Exit status: 0 restored, or there is nothing to restore, 1 the checkpoint is damaged, or could not be fetched.
"""
_LIST = """\
Shows complete and incomplete checkpoints.

Exit status: 0 good, 1 the store cannot be read.
"""
_PRUNE = """\
Removes old checkpoints. It keeps the newest --keep-last checkpoints, and all whose step is a multiple of --keep-every.
Checkpoints of a later attempt are newer than those of an earlier one, whatever their steps are. If an attempt has
restored an older step, the earlier checkpoints above that step belong to another branch: prune lists these, and removes
them only with --branches.

Exit status: 0 good or done, 1 the store cannot be read, or something could not be removed.
"""
_VERIFY = """\
Verifies the newest complete checkpoint, or the one of --step or --id, or with --all every complete checkpoint: its
manifests, the names and sizes of its files, and its signature if it has one. --full also downloads the files and
compares their SHA-256. --signed also requires a signature. --store may be given several times.

Downloads use at most half of the free space of --work: a checkpoint with a larger file is not verified.

Exit status: 0 intact, 1 a checkpoint is damaged or its signature is invalid, 2 a store has no such checkpoint, or
cannot be read.
"""
_ARCHIVE = """\
Uploads the files of DIR, a job's folder, and further files such as the job's log, to outputs/NAME in the store. NAME is
the name of DIR. Files in subfolders of DIR are left out. The uploaded files are never pruned.

Exit status: 0 good, 1 not uploaded, or a FILE does not exist; the others are uploaded.
"""
_STATUS = """\
Shows what the watchers of DIR do.

Exit status: 0 good, 1 a watcher has a problem, 2 nothing watches DIR.
"""


_STORE = "https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER, one per training"


def _add_watch(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", help="the folder of checkpoints")
    _add_signal(parser)
    add("--marker", metavar="NAME", default=".complete", help="the marker's name (.complete)")
    add("--once", action="store_true", help="publish what is finished, then exit")
    add("--every", type=float, metavar="S", default=2.0, help="seconds between scans of DIR (2)")
    _add_wait(parser, "with --once: seconds to wait for other nodes, and for failing uploads (600)")
    add("--near-limit", metavar="FILE", default="", help="with --once: this file exists since the time limit is near")
    add("--within", type=float, metavar="S", default=210.0, help="seconds to work from then on (210)")
    add("--acknowledge", action="store_true", help="let a scheduled event start once all is published")
    _add_retention(parser, "keep the N newest; without this, watch does not prune")
    _add_about(parser)
    _add_place_in_job(parser)


def _add_save(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", help="a checkpoint")
    add("--step", type=int, metavar="N", help="the step")
    add("--save-id", metavar="TEXT", default="", help="distinguishes two saves of a step in one attempt")
    _add_signal(parser)
    _add_wait(parser, "seconds to wait for other nodes (600)")
    _add_about(parser)
    _add_place_in_job(parser)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--to", metavar="DIR", help="the folder in which to put the checkpoint's folder")
    add("--step", type=int, metavar="N", help="the step")
    add("--id", metavar="ID", help="the id of one checkpoint, as list shows it")
    add("--all", action="store_true", help="fetch the parts of all nodes to each node")
    add("--any-part", action="store_true", help="each part is a complete copy: fetch one, whatever the number of nodes")
    add("--fall-back", action="store_true", help="one node or --shared: use an older one if the newest is damaged")
    add("--latest-file", metavar="NAME", help="write the checkpoint's name to this file beside the checkpoint")
    add("--shared", action="store_true", help="all nodes see the same folder, so only node 0 restores")
    add("--signed", action="store_true", help="refuse a checkpoint without a valid signature")
    _add_wait(parser, "seconds to wait for other nodes (600)")
    _add_place_in_job(parser)


def _add_prune(parser: argparse.ArgumentParser) -> None:
    _add_retention(parser, "keep the N newest")
    parser.add_argument("--branches", action="store_true", help="also remove checkpoints of other branches")
    _add_place_in_job(parser)


def _add_about(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lineage", metavar="FILE", default="", help="store this JSON file with each complete checkpoint")
    add("--sign", action="store_true", help="sign each complete checkpoint with the cluster's key")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help="all complete checkpoints")
    add("--step", type=int, metavar="N", help="the step")
    add("--id", metavar="ID", help="the id of one checkpoint, as list shows it")
    add("--full", action="store_true", help="download the files and compare their hashes")
    add("--signed", action="store_true", help="require a signature")
    add("--store", dest="stores", action="append", metavar="URL", help=_STORE)
    add_blob_options(parser, "this node")


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a job's folder")
    parser.add_argument("files", metavar="FILE", nargs="*", default=[], help="further files")
    _add_store(parser)


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder of checkpoints")


def _add_signal(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--signal",
        choices=("marker", "latest", "rename"),
        default="marker",
        help="what marks a finished checkpoint (marker)",
    )
    add("--latest-file", metavar="NAME", help="the file that names the latest, for --signal latest")
    add("--shared", action="store_true", help="all nodes see the same folder, so each uploads a share of it")


def _add_wait(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument("--wait", type=float, metavar="S", default=600.0, help=words)


def _add_retention(parser: argparse.ArgumentParser, words: str) -> None:
    add = parser.add_argument
    add("--keep-last", type=int, metavar="N", help=words)
    add("--keep-every", type=int, metavar="K", default=0, help="also keep steps that are multiples of K (none)")
    add(
        "--leftover-hours",
        type=float,
        metavar="H",
        default=24.0,
        help="age in hours at which incomplete checkpoints are removed (24)",
    )


def _add_place_in_job(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--attempt", metavar="TEXT", help="name of this attempt, the same on all nodes (job id and restart count)")
    add("--rank", type=int, metavar="I", help="number of this node (SLURM_NODEID)")
    add("--world", type=int, metavar="N", help="number of nodes (SLURM_JOB_NUM_NODES)")
    _add_store(parser)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="URL", help=_STORE)
    add_blob_options(parser, "this node")


ACTIONS = (
    Action("watch", "upload each finished checkpoint", _WATCH, _add_watch),
    Action("save", "upload this node's part of one checkpoint", _SAVE, _add_save),
    Action("restore", "fetch a complete checkpoint", _RESTORE, _add_restore),
    Action("list", "show the checkpoints", _LIST, _add_store),
    Action("verify", "verify files and signatures", _VERIFY, _add_verify),
    Action("archive", "upload a job's logs and reports", _ARCHIVE, _add_archive),
    Action("prune", "remove old checkpoints", _PRUNE, _add_prune),
    Action("status", "show what the watchers do", _STATUS, _add_status),
)
