# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A complete training job. It stages a data set from Blob to the file system of its nodes, one shard per node, and
uploads checkpoints to Blob. It is killed during an upload, is requeued, resumes from the newest complete checkpoint,
and leaves nothing behind.

The account is Azurite on this machine, under the host name of Azure's storage and with TLS; azcopy is real. BeeGFS is a
stand-in.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stand_ins.blob.azurite import Azurite, NotHere, installed
from stand_ins.blob.certificate import certificate_for
from stand_ins.blob.sas import ACCOUNT, account_sas

from simulated import training
from simulated.data import left
from simulated.node import Node

Eventually = Callable[..., float]
HOST = f"{ACCOUNT}.blob.core.windows.net"
TRUSTED = "/usr/local/share/ca-certificates/hpcai-test-account.crt"
FOLDER = "/opt/training"
PROGRAM, SAS, LOG = f"{FOLDER}/training.py", f"{FOLDER}/sas", f"{FOLDER}/log"
LAST_STEP = 80
CAP_MBPS = 8
START_S, REQUEUE_S, END_S = 120, 240, 240
"""Seconds until the first checkpoint is complete, until the job runs again (the credential of its first start lasts
60 s), and until it ends."""
SCRIPT = """#!/bin/bash
data=/beeond/data run=/beeond/run
export HPCAI_CHECKPOINT_STORE=URL/checkpoints/run
once="srun --mpi=none --overlap --ntasks=2 --ntasks-per-node=1"
$once hpcnode stage run --decompress --source URL/data/set --target $data --sas-file SAS || exit 1
mkdir $run
$once hpcnode checkpoint restore --shared --to $run --sas-file SAS || exit 1
$once hpcnode checkpoint watch $run --shared --sas-file SAS --cap-mbps CAP --every 1 &
watcher=$!
$once --kill-on-bad-exit=1 python3 PROGRAM $data $run LAST
status=$?
kill -TERM $watcher
wait $watcher
if [ $status != 0 ]; then
    [ "${SLURM_RESTART_COUNT:-0}" = 0 ] && scontrol requeue $SLURM_JOB_ID && sleep 60
    exit $status
fi
$once hpcnode checkpoint watch $run --shared --sas-file SAS --once
"""


@dataclass(frozen=True)
class Account:
    """The storage account.

    :ivar url: the address that the nodes use.
    """

    blobs: Azurite
    url: str

    def complete_steps(self) -> list[int]:
        """The steps of complete checkpoints, the newest last."""
        return sorted(
            int(name.split("/")[2].split("-")[0]) for name in self.blobs.names("checkpoints", "run/complete/")
        )

    def uploading(self, rank: int) -> int:
        """The newest incomplete step of which a node has uploaded something; 0 if there is none."""
        names = self.blobs.names("checkpoints", "run/data/")
        steps = {int(name.split("/")[2].split("-")[0]) for name in names if f"/{rank}-" in name}
        return max(steps - set(self.complete_steps()), default=0)


@pytest.fixture
def account(node: Callable[[str], Node], tmp_path: Path) -> Iterator[Account]:
    """An account that both nodes can resolve and trust, and a SAS for alice on each node."""
    try:
        programs = installed()
    except NotHere as error:
        pytest.skip(str(error))
    nodes = [node("0"), node("3")]
    gateway = nodes[0].sh("ip route show default").split()[2]
    certificate = certificate_for(HOST, gateway, tmp_path)
    blobs = Azurite(programs, tmp_path / "azurite", gateway, certificate)
    try:
        for one in nodes:
            one.write(TRUSTED, certificate.public.read_bytes(), "0644")
            one.sh(f"update-ca-certificates >/dev/null; echo {gateway} {HOST} >>/etc/hosts")
            one.write(PROGRAM, Path(training.__file__).read_bytes(), "0644")
            one.write(SAS, account_sas().encode(), "0600")
            one.sh(f"chown alice: {FOLDER} {SAS}")
        for container in ("data", "checkpoints"):
            blobs.container(container)
        yield Account(blobs, f"https://{HOST}:{blobs.port}")
    finally:
        blobs.end()
        for one in nodes:
            one.sh(f"rm -rf {TRUSTED} {FOLDER}; sed -i /{HOST}/d /etc/hosts; update-ca-certificates >/dev/null")


@pytest.fixture
def data(account: Account, tmp_path: Path) -> str:
    """A data set in the account, partly compressed; returns its digest."""
    kind, here = random.Random(7), tmp_path / "data"
    for number in range(60):
        name, content = f"part{number % 5}/{number:03} of 60.bin", kind.randbytes(kind.randrange(60_000))
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if number % 10 == 0:
            account.blobs.put("data", f"set/{name}.gz", gzip.compress(content), x_ms_blob_content_encoding="gzip")
        else:
            account.blobs.put("data", f"set/{name}", content)
    return training.digest_of(here)


@pytest.fixture
def job(account: Account, alice: Any) -> Iterator[str]:
    """The number of the training job, which is cancelled afterwards."""
    words = {"URL": account.url, "SAS": SAS, "CAP": str(CAP_MBPS), "PROGRAM": PROGRAM, "LAST": str(LAST_STEP)}
    script = re.sub("|".join(words), lambda found: words[found[0]], SCRIPT)
    alice.check_output(f"cat >/tmp/training.sh <<'END'\n{script}END")
    options = f"--nodes=2 --constraint=beeond --requeue --time=20 --open-mode=append --output={LOG}"
    number = alice.check_output(f"cd /tmp && sbatch --parsable {options} /tmp/training.sh").partition(";")[0]
    yield number
    alice.run(f"scancel {number}; rm -f /tmp/training.sh")


def remains(nodes: list[Node]) -> list[list[str]]:
    """What jobs left on each node: alice's processes, and data of BeeGFS and Blob storage."""
    return [[*one.sh("pgrep --list-full --uid alice", check=False).splitlines(), *left(one)] for one in nodes]


# A requeued job waits until the credential of its first start has expired.
@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_a_killed_training_resumes_from_its_newest_complete_checkpoint(
    alice: Any, node: Callable[[str], Node], account: Account, data: str, job: str, eventually: Eventually
) -> None:
    first, second = nodes = [node("0"), node("3")]

    def log() -> str:
        return first.sh(f"cat {LOG}", check=False)

    eventually(lambda: len(account.complete_steps()) > 0 and account.uploading(1) > 0, START_S, log)
    second.sh("pkill -KILL --uid alice")
    half = account.uploading(1)
    eventually(lambda: alice.job(job)["Restarts"] == "1", START_S, log)
    # Both of its nodes are clean before it runs again.
    eventually(lambda: remains(nodes) == [[], []], START_S, lambda: (remains(nodes), log()))
    kept = account.complete_steps()
    assert kept
    assert half > max(kept), "it was killed too late: the checkpoint was complete"

    eventually(lambda: log().count("goes on from") == 4, REQUEUE_S, log)
    eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", END_S, log)
    output = log()
    assert sorted(re.findall(r"rank \d goes on from step \d+", output)) == sorted(
        f"rank {rank} goes on from step {step}" for rank in (0, 1) for step in (0, max(kept))
    )
    assert sorted(re.findall(r"rank \d has data \w+", output)) == sorted(
        f"rank {rank} has data {data}" for rank in (0, 0, 1, 1)
    )
    for rank in (0, 1):
        state = ""
        for step in range(1, LAST_STEP + 1):
            state = training.after(state, step, rank, data)
        assert f"rank {rank} is done: {state}" in output
    assert account.complete_steps()[-1] == LAST_STEP
    assert all(f"shard {number} of 2" in output for number in (0, 1))
    assert "sig=" not in output
    eventually(lambda: remains(nodes) == [[], []], START_S, lambda: remains(nodes))
    for one in nodes:
        eventually(lambda one=one: one.state() == "idle", START_S, one.state)
