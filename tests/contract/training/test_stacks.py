# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stacks of a job that hangs, with the real py-spy: they show which rank waits for which."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import watch

RANK = """\
import ctypes, socket, sys, time
# Where kernel.yama.ptrace_scope is 1, py-spy may otherwise read only processes that it has started itself.
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
open("/proc/self/comm", "w").write("pt_main_thread")
peer = socket.socket(fileno=int(sys.argv[2]))

def all_reduce():
    print("ready", flush=True)
    peer.recv(1)

def read_batch():
    print("ready", flush=True)
    time.sleep(600)

def train(rank):
    if rank == 1:
        read_batch()
    all_reduce()

train(int(sys.argv[1]))
"""


def test_the_stacks_of_two_ranks_show_which_one_waits_for_the_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    first, second = socket.socketpair()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(own.fileno())],
            pass_fds=[own.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, own in enumerate((first, second))
    ]
    try:
        assert [rank.stdout.readline() for rank in ranks if rank.stdout] == ["ready\n", "ready\n"]
        # A machine with no other processes than these two and this one.
        (tmp_path / "proc").mkdir()
        for pid in (*(rank.pid for rank in ranks), os.getpid()):
            (tmp_path / f"proc/{pid}").symlink_to(f"/proc/{pid}")
        found = watch.stacks(run, os.geteuid(), Root(str(tmp_path)))
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert all(one.startswith("process ") for one in found), found
    shown = {int(one.partition(":")[0].removeprefix("process ")): one for one in found}
    assert set(shown) == {rank.pid for rank in ranks}, found
    for rank, waits_in in zip(ranks, ("all_reduce", "read_batch"), strict=True):
        assert re.search(rf"^ +{waits_in} \(.*\n +train \(", shown[rank.pid], re.MULTILINE), found
