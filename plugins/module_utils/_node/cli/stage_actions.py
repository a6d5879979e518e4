# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The actions of hpcnode stage: what they do, and their options."""

from __future__ import annotations

import argparse

from .blob_options import add_blob_options
from .command import Action

DESCRIPTION = """\
Copies the blobs below a folder of a container to the folder TARGET (--target), with azcopy, as the calling user. In a
job, each node copies its shard to a shared file system:

  srun --ntasks-per-node=1 hpcnode stage run --source URL --target DIR

A SAS is read from --sas-file, which must have mode 0600, or from HPCAI_BLOB_SAS. While azcopy runs, the SAS is visible
in its arguments.

Defaults are in /etc/hpcai/blob.json.
"""
_STATUSES = """\
Exit status: 0 good or done, 1 something could not be copied, or differs from what was staged, 2 nothing was staged, or
the result is not known.
"""
_RUN = f"""\
Lists the source on the first node, divides the blobs by bytes (or by names, with --pattern), and copies what TARGET
lacks. A file gets its final name only after its length is verified, and also its MD5 if the blob has one, and gzip's
checksum if it is decompressed. After a killed run, call run again: it copies what is missing.

{_STATUSES}"""
_PLAN = f"""\
Shows the content of each shard, and copies nothing.

{_STATUSES}"""
_STATUS = f"""\
Shows the content of the manifests in TARGET/.hpcai-stage.

{_STATUSES}"""
_VERIFY = f"""\
Compares files, manifests and the listing; --full also reads the files.

{_STATUSES}"""
_SUMS = f"""\
Verifies what was staged by reading it, and prints the SHA-256 of each file, as sha256sum does. Keep the output apart
from the data: 'run --sums' and 'verify --sums' refuse a data set that differs. For files that are not in Blob storage
yet, use sha256sum, which prints the same.

{_STATUSES}"""
_CLEAN = f"""\
Removes the manifests and what a killed run left, but no data.

{_STATUSES}"""
_PREPARE = f"""\
For root: creates the folder for azcopy's logs and plans. Prologs call it.

{_STATUSES}"""
_SWEEP = f"""\
For root: removes what killed runs of the job left in the folder for azcopy's logs and plans, and logs of failed runs
after a week. Epilogs call it.

{_STATUSES}"""


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_source(parser)
    _add_target(parser)
    add("--full", action="store_true", help="read existing files and compare hashes, not sizes")
    add("--sums", metavar="FILE", default="", help="refuse a data set that differs from these SHA-256 sums")
    add("--workers", type=int, metavar="N", help="files verified and decompressed at the same time (half the CPUs)")
    add("--relist", action="store_true", help="outside of a job: list again, ignore the list in TARGET")
    add("--every", type=float, metavar="S", default=10.0, help="seconds between lines of progress (10)")
    add("--wait", type=float, metavar="S", default=300.0, help="timeout in seconds for the first node's list (300)")


def _add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the options of run and plan, which read the source."""
    add = parser.add_argument
    add("--source", metavar="URL", required=True, help="https://ACCOUNT.blob.core.windows.net/CONTAINER[/FOLDER]")
    add("--shard", metavar="I/N", default="", help="which shard (the node's number in the step)")
    add("--all", action="store_true", help="each node copies everything to its own disk")
    add("--pattern", metavar="GLOB", default="", help="divide by names, such as '*_{000..063}.tfrecord.gz'")
    add("--decompress", action="store_true", help="decompress blobs with Content-Encoding gzip")
    add("--processes", type=int, metavar="N", help="azcopy processes on each node (1)")
    add("--connections", type=int, metavar="N", help="connections of each azcopy; 0: azcopy decides (0)")
    add("--stall", type=float, metavar="S", default=300.0, help="timeout in seconds without any progress (300)")
    add("--limit", type=float, metavar="S", default=86400.0, help="timeout of the run in seconds (86400)")
    add_blob_options(parser, "each azcopy")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="DIR", required=True, help="the folder to stage to")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("--full", action="store_true", help="read the files and compare hashes, not sizes")
    parser.add_argument("--sums", metavar="FILE", default="", help="also compare with these SHA-256 sums")
    parser.add_argument("--workers", type=int, metavar="N", help="files verified at the same time (half the CPUs)")


def _add_sums(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="files read at the same time (half the CPUs)")
    parser.set_defaults(sums="")


ACTIONS = (
    Action("run", "copy this node's shard", _RUN, _add_run),
    Action("plan", "show the content of each shard", _PLAN, _add_source),
    Action("status", "show what was staged", _STATUS, _add_target),
    Action("verify", "compare the files with what was staged", _VERIFY, _add_verify),
    Action("sums", "print the SHA-256 of each staged file", _SUMS, _add_sums),
    Action("clean", "remove manifests and what a killed run left", _CLEAN, _add_target),
    Action("prepare", "create the folder for azcopy's logs, in a prolog", _PREPARE),
    Action("sweep", "remove what killed runs left, in an epilog", _SWEEP),
)
