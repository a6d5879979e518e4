# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options of commands that use Blob storage: how to authenticate, how fast, and with which azcopy."""

from __future__ import annotations

import argparse


def add_blob_options(parser: argparse.ArgumentParser, of_each: str) -> None:
    """Declare the options.

    :param of_each: what has the bandwidth limit of ``--cap-mbps``.
    """
    add = parser.add_argument_group("Blob storage").add_argument
    add("--credential", choices=("identity", "workload", "sas", "none"), help="how to authenticate (identity)")
    add("--client-id", metavar="ID", help="for root: client id of the managed identity to use")
    add("--sas-file", metavar="FILE", default="", help="a file with a SAS")
    add("--account-gbps", type=float, metavar="N", help="the account's bandwidth limit in Gbit/s, for all nodes (none)")
    add("--cap-mbps", type=float, metavar="N", help=f"limit of {of_each} in Mbit/s, instead of --account-gbps")
    add("--azcopy", metavar="FILE", help="path of azcopy")
    add("--work", metavar="DIR", help="folder for azcopy's logs and plans")
