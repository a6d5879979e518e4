# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A data set of 1,000 files is staged by three nodes, one of which is killed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite
from stand_ins.blob.front import Front

from .conftest import Node, answer_of

FILES = 1000
NODES = 3
# Bytes that may be sent twice: one file per connection when the node dies, and files that were not verified yet.
SLACK = 6_000_000


def content(number: int, kind: random.Random) -> bytes:
    """The content of a file: most are small, some are large, one is empty."""
    size = 0 if number == 0 else int(min(2_000_000, 3_000 * 10 ** kind.expovariate(1.2)))
    return kind.randbytes(size)


@pytest.fixture(scope="module")
def data(account: Azurite) -> dict[str, bytes]:
    """The content of the data set, by name. Its blobs have no MD5."""
    kind = random.Random(7)
    account.container("mixed")
    made = {}
    names = [
        f"part {number % 7}/f;{number:04d}%41 ü.bin" if number % 9 == 0 else f"{number % 7}/{number:04d}.bin"
        for number in range(FILES)
    ]
    for number, name in enumerate(names):
        made[name] = content(number, kind)
        account.put("mixed", f"set/{name}", made[name])
    return made


@pytest.fixture
def front(account: Azurite) -> Iterator[Front]:
    """A proxy of the account that counts the bytes that it sends."""
    made = Front(account.port)
    yield made
    made.end()


def files_in_manifest(folder: Path, number: int) -> int:
    """The number of files in a shard's manifest."""
    path = folder / ".hpcai-stage" / f"manifest-{number:05d}-of-{NODES:05d}.jsonl"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def processes_with(marker: str) -> list[str]:
    """The running processes whose arguments contain ``marker``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
        except OSError:
            continue
        if marker in words and entry.name != str(os.getpid()):
            found.append(words)
    return found


def test_a_killed_node_copies_only_what_it_lacks(
    node: Node, front: Front, data: dict[str, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "beeond"
    words = ["run", "--source", f"{front.url}/mixed/set", "--target", str(target), "--cap-mbps", "48"]
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": str(NODES)}
    nodes = [node.start(*words, **step, SLURM_NODEID=str(number)) for number in range(NODES)]
    deadline = time.monotonic() + 60
    while files_in_manifest(target, 1) < 60 and time.monotonic() < deadline:
        time.sleep(0.05)
    killed_at = files_in_manifest(target, 1)
    os.kill(nodes[1].pid, signal.SIGKILL)
    nodes[1].communicate(timeout=10)
    answers = [answer_of(nodes[number]) for number in (0, 2)]
    assert [answer["problem"] for answer in answers] == ["", ""]
    assert 60 <= killed_at < answers[0]["files"], "it was killed too late to prove anything"
    assert not processes_with(f"{node.work}/hpcai-stage-7-1"), "azcopy outlived hpcnode"
    assert not [path for path in target.rglob("*") if ".azDownload-" in path.name and ".hpcai-stage" not in path.parts]

    short = node("verify", "--target", str(target))
    assert short["status"] == 1
    missing = short["count"]

    front.sent = 0
    again = node(*words[:-2], "--shard", f"1/{NODES}")
    assert again["status"] == 0, again
    assert again["kept"] >= killed_at
    assert again["copied"] <= missing
    assert again["kept"] + again["copied"] == again["files"]
    assert front.sent <= again["bytes_copied"] + SLACK

    good = node("verify", "--target", str(target), "--full")
    assert (good["status"], good["files"], good["problems"]) == (0, FILES, [])
    for name, whole in data.items():
        found = (target / name).read_bytes()
        assert hashlib.sha256(found).digest() == hashlib.sha256(whole).digest(), name
    on_disk = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert {name for name in on_disk if not name.startswith(".hpcai-stage")} == data.keys()
    assert sum(answer["files"] for answer in (*answers, again)) == FILES

    # Nothing remains to be copied, so azcopy is not started.
    front.sent = 0
    idle = node(*words[:-2], "--shard", f"1/{NODES}")
    assert (idle["copied"], idle["kept"], front.sent) == (0, again["files"], 0)

    # Changed files are found by their size, and with --full also by their content.
    victims = sorted(data)[500:502]
    (target / victims[0]).write_bytes(data[victims[0]] + b"x")
    (target / victims[1]).write_bytes(b"y" * len(data[victims[1]]))
    quick, full = node("verify", "--target", str(target)), node("verify", "--target", str(target), "--full")
    assert [quick["count"], full["count"]] == [1, 2]
    assert not any(node.work.glob("hpcai-stage-*-0-*")), "logs and plans are left after success"


def test_all_nodes_use_the_same_listing(node: Node, account: Azurite, tmp_path: Path) -> None:
    account.container("moving")
    for number in range(6):
        account.put("moving", f"{number}.bin", bytes(1000 + number))
    target = tmp_path / "shared"
    words = ["run", "--source", f"{account.url}/moving", "--target", str(target)]
    step = {"SLURM_JOB_ID": "8", "SLURM_STEP_ID": "3", "SLURM_JOB_NUM_NODES": "2"}
    first = node(*words, **step, SLURM_NODEID="0")
    # The container changes before the second node starts, which must use the first node's listing.
    account.put("moving", "7.bin", bytes(5000))
    second = node(*words, **step, SLURM_NODEID="1")
    assert first["digest"] == second["digest"]
    assert first["files"] + second["files"] == 6
    assert node("verify", "--target", str(target))["status"] == 0

    # In the next step, the first node lists again, and the old shard of the second node is detected.
    # After success, a node removes azcopy's logs of its own killed runs, but not those of other nodes.
    for left in ("hpcai-stage-8-0-killed", "hpcai-stage-8-1-failed"):
        (node.work / left / "logs").mkdir(parents=True)
    later = node(*words, **{**step, "SLURM_STEP_ID": "4"}, SLURM_NODEID="0")
    assert [path.name for path in node.work.glob("hpcai-stage-*")] == ["hpcai-stage-8-1-failed"]
    assert later["digest"] != first["digest"]
    mixed = node("verify", "--target", str(target))
    assert mixed["status"] == 1
    assert f"was staged from listing {first['digest']}" in mixed["problems"][0]
    assert node(*words, **{**step, "SLURM_STEP_ID": "4"}, SLURM_NODEID="1")["status"] == 0
    assert node("verify", "--target", str(target))["files"] == 7


@pytest.mark.thorough
def test_with_all_each_node_copies_the_complete_data_set(node: Node, account: Azurite, tmp_path: Path) -> None:
    account.container("whole")
    account.put("whole", "a", b"a")
    account.put("whole", "b/c", b"bc")
    step = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": "2"}
    for number in range(2):
        target = tmp_path / f"local{number}"
        words = ["run", "--all", "--source", f"{account.url}/whole", "--target", str(target)]
        assert node(*words, **step, SLURM_NODEID=str(number))["files"] == 2
        assert (target / "b/c").read_bytes() == b"bc"


@pytest.mark.thorough
def test_a_pattern_with_a_range_stages_files_by_number(node: Node, account: Azurite, tmp_path: Path) -> None:
    account.container("cosmo")
    for number in range(8):
        account.put("cosmo", f"univ_a1_{number:03d}.tfrecord", bytes([number]) * 1000)
    account.put("cosmo", "readme.txt", b"no data")
    words = ["run", "--source", f"{account.url}/cosmo", "--target", str(tmp_path / "to"), "--pattern"]
    for number in range(2):
        done = node(*words, "*_{000..007}.tfrecord", "--shard", f"{number}/2")
        assert (done["files"], done["copied"]) == (4, 4)
        assert (tmp_path / "to" / f"univ_a1_{number * 4:03d}.tfrecord").read_bytes() == bytes([number * 4]) * 1000
    assert not (tmp_path / "to/readme.txt").exists()
    assert node("verify", "--target", str(tmp_path / "to"), "--full")["files"] == 8


@pytest.mark.thorough
def test_several_azcopy_processes_of_a_node_share_its_shard(
    node: Node, account: Azurite, data: dict[str, bytes], tmp_path: Path
) -> None:
    words = ["run", "--source", f"{account.url}/mixed/set/3", "--target", str(tmp_path / "to"), "--processes", "2"]
    done = node(*words)
    assert done["copied"] == sum(name.startswith("3/") for name in data) > 100
