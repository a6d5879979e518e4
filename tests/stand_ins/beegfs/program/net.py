# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``beegfs-net``: the connections of this node's mounts, in the real tool's format."""

from __future__ import annotations

import contextlib
import getopt
import os
import sys

from .clients import Client


def main(argv: list[str]) -> int:
    """``beegfs-net [-h] [-n]``"""
    try:
        options = dict(getopt.getopt(argv[1:], "hn")[0])
    except getopt.GetoptError as error:
        print(f"Invalid option: -{error.opt}", file=sys.stderr)
        return 1
    if "-h" in options:
        print("beegfs-net [-h] [-n]: connections to the servers; -n does not ask the servers first")
        return 0
    clients = Client.all()
    if not clients:
        print("No active BeeGFS mounts found.", file=sys.stderr)
        return 1
    print()
    for position, client in enumerate(clients):
        if "-n" not in options:
            # As in the real tool, this is slow if a server does not answer.
            with contextlib.suppress(OSError):
                os.statvfs(client.read("mountpoint"))
        if position:
            print("\n           ###################\n")
        for kind in ("mgmt_nodes", "meta_nodes", "storage_nodes"):
            print(f"{kind}\n=============")
            print("".join(line for line in client.read(kind).splitlines(True) if "Root" not in line))
    print()
    return 0
