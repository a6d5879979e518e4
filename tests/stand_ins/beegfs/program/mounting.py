# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``mount.beegfs`` and ``umount.fuse.beegfs``, the helpers that mount and umount call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

from . import calls
from .clients import Client

FAILED = 32
LIBRARY = "/opt/beegfs/lib/stand-in"
LOOK_S = 0.05
LAZY_PATIENCE_S = 1.0


def mount(argv: list[str]) -> int:
    """``mount.beegfs beegfs_nodev MOUNT [-sfnv] -o cfgFile=FILE,nosuid,...``"""
    for number in (signal.SIGTERM, signal.SIGINT):
        # A real mount waits in the kernel, where these signals do not stop it either.
        signal.signal(number, signal.SIG_IGN)
    mountpoint, options = os.path.abspath(argv[2]), ""
    for word, following in zip(argv[3:], [*argv[4:], ""], strict=True):
        options = following if word == "-o" else options
    listed = options.split(",")
    flags = sum(flag for name, flag in calls.FLAGS.items() if name in listed)
    words = [option for option in listed if "=" in option and not option.startswith("x-")]
    # Named without the configuration's path, because the real client is not a process that a search could find.
    client = subprocess.Popen(
        ["[beegfs_client]", "-S", f"{LIBRARY}/client.py"],
        executable="/usr/bin/python3",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    said, _unused = _send_request(client, {"words": words, "mountpoint": mountpoint, "flags": flags})
    if said != "\n":
        print(f"mount: {mountpoint}: mount(2) system call failed: {said.strip()}", file=sys.stderr)
        return FAILED
    return 0


def _send_request(client: subprocess.Popen[str], asked: dict[str, object]) -> tuple[str, int]:
    if client.stdin is None or client.stdout is None:
        raise RuntimeError("no pipes")
    client.stdin.write(json.dumps(asked) + "\n")
    client.stdin.flush()
    return client.stdout.readline(), client.pid


def unmount(argv: list[str]) -> int:
    """``umount.fuse.beegfs MOUNT [-flnrv]``: unmount, then wait until the client has deregistered."""
    mountpoint = os.path.abspath(argv[1])
    given = "".join(word[1:] for word in argv[2:] if word.startswith("-"))
    lazy = "l" in given
    flags = (calls.DETACH if lazy else 0) | (calls.FORCE if "f" in given else 0)
    mounted = [client for client in Client.all() if client.read("mountpoint") == mountpoint]
    try:
        calls.unmount(mountpoint, flags)
    except OSError as error:
        busy = "target is busy." if error.errno == 16 else f"{error.strerror}."
        print(f"umount: {mountpoint}: {busy}", file=sys.stderr)
        return FAILED
    began = time.monotonic()
    for client in mounted[-1:]:
        while client.alive():
            # A file is still open. After a lazy unmount the client ends when it is closed; umount does not wait.
            if lazy and not client.read("signing-off") and time.monotonic() - began > LAZY_PATIENCE_S:
                break
            time.sleep(LOOK_S)
    return 0
