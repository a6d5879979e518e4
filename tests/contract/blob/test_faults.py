# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault ends with a message that says what to do, and leaves no partial file under the name of a file."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite
from stand_ins.blob.front import Front
from stand_ins.blob.sas import account_sas, wrong_sas

from .conftest import Node

TEXT = b"".join(b"%d times a line of text\n" % number for number in range(30_000))


@pytest.fixture(scope="module")
def plain(account: Azurite) -> str:
    """A container with two blobs."""
    url = account.container("plain")
    account.put("plain", "one", b"1" * 70_000)
    account.put("plain", "two", b"2" * 70_000)
    return url


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "hpcai-test", str(folder)], check=False, capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def files_below(folder: Path) -> list[str]:
    """The files below the folder, without those of hpcnode."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".hpcai-stage" not in path.parts
    )


def test_a_wrong_sas_is_reported_without_its_value(node: Node, plain: str, tmp_path: Path) -> None:
    node.write_sas(wrong_sas())
    words = ["run", "--source", plain, "--target", str(tmp_path / "to")]
    done = node(*words)
    assert done["status"] == 1
    assert "access was denied (403): the SAS is wrong, expired or lacks a permission" in done["error"]
    secret = wrong_sas().partition("sig=")[2]
    assert secret not in done["stdout"] + done["stderr"]
    (logs,) = node.work.glob("hpcai-stage-*")
    assert f"azcopy's logs are in {logs}." in done["error"]


@pytest.mark.thorough
def test_a_sas_that_expires_after_the_listing_is_reported(node: Node, plain: str, tmp_path: Path) -> None:
    # In this case, azcopy itself reports 'Completed' and exits with 0.
    words = ["run", "--source", plain, "--target", str(tmp_path / "to")]
    assert node(*words, "--shard", "0/2")["status"] == 0
    node.write_sas(wrong_sas())
    done = node(*words, "--shard", "1/2")
    assert (done["status"], done["copied"]) == (1, 0)
    assert "access was denied (403)" in done["problem"]
    logs = [path.read_text(errors="replace") for path in Path(done["logs"]).rglob("*") if path.is_file()]
    secret = wrong_sas().partition("sig=")[2]
    assert logs
    assert not any(secret in text for text in (*logs, done["stdout"], done["stderr"]))


def test_a_sas_file_that_other_users_can_read_is_refused(node: Node, plain: str, tmp_path: Path) -> None:
    node.sas.chmod(0o640)
    done = node("run", "--source", plain, "--target", str(tmp_path / "to"))
    assert done["status"] == 2
    assert "is accessible to other users: run 'chmod 600'" in done["error"]


def test_a_sas_from_the_environment_is_passed_to_azcopy(node: Node, plain: str, tmp_path: Path) -> None:
    node.write_sas("")
    words = node.command("run", "--source", plain, "--target", str(tmp_path / "to"), "--credential", "sas")
    at = words.index("--sas-file")
    del words[at : at + 2]
    done = subprocess.run(words, env=node.environment(HPCAI_BLOB_SAS=account_sas()), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_deleted_blob_is_reported_by_name(node: Node, account: Azurite, tmp_path: Path) -> None:
    url = account.container("fading")
    for name in ("kept", "gone soon"):
        account.put("fading", name, b"x" * 10)
    words = ["run", "--source", url, "--target", str(tmp_path / "to")]
    shards = {0: 1, 1: 1}
    assert node(*words, "--shard", "1/2")["files"] == shards[1]
    account.delete("fading", "gone soon")
    account.delete("fading", "kept")
    done = node(*words, "--shard", "0/2")
    assert (done["status"], done["copied"], len(done["left"])) == (1, 0, 1)
    assert f"{done['left'][0]!r}: the blob does not exist any more (404): create a new plan" in done["problem"]


@pytest.mark.thorough
def test_a_blob_that_changed_after_the_listing_is_refused(node: Node, account: Azurite, tmp_path: Path) -> None:
    url = account.container("changing")
    account.put("changing", "a", b"x" * 10)
    account.put("changing", "b", b"x" * 10)
    words = ["run", "--source", url, "--target", str(tmp_path / "to")]
    node(*words, "--shard", "0/2")
    account.put("changing", "a", b"y" * 11)
    account.put("changing", "b", b"y" * 11)
    done = node(*words, "--shard", "1/2")
    assert done["status"] == 1
    assert "11 bytes arrived, 10 are listed: the blob has changed" in done["problem"]
    assert len(files_below(tmp_path / "to")) == 1


def test_a_missing_container_is_reported(node: Node, account: Azurite, tmp_path: Path) -> None:
    done = node("run", "--source", f"{account.url}/nowhere", "--target", str(tmp_path / "to"))
    assert (done["status"], "the container does not exist (404)" in done["error"]) == (1, True)


def test_an_unknown_account_is_reported(node: Node, tmp_path: Path) -> None:
    done = node("run", "--source", "https://nosuchaccount.invalid/data", "--target", str(tmp_path / "to"))
    assert (done["status"], "the account's name cannot be resolved" in done["error"]) == (1, True)


def test_a_disk_that_is_too_small_is_reported_before_anything_is_copied(
    node: Node, account: Azurite, small_disk: Path
) -> None:
    url = account.container("large")
    account.put("large", "blob", os.urandom(4_000_000))
    done = node("run", "--source", url, "--target", str(small_disk))
    assert done["status"] == 1
    assert "the disk is full: free space" in done["problem"]
    assert "4.0 MB must be copied" in done["problem"]
    assert done["bytes_over_wire"] == 0


def test_a_disk_that_fills_up_is_reported(node: Node, account: Azurite, small_disk: Path) -> None:
    url = account.container("filling")
    # The blob is small, but its decompressed content is larger than the disk.
    account.put("filling", "zeros.gz", gzip.compress(bytes(8_000_000)), x_ms_blob_content_encoding="gzip")
    done = node("run", "--source", url, "--target", str(small_disk), "--decompress")
    assert (done["status"], done["left"]) == (1, ["zeros.gz"])
    assert "the disk is full: free space, or stage to a larger file system" in done["problem"]
    assert files_below(small_disk) == []


@pytest.mark.thorough
def test_an_account_that_throttles_is_reported(node: Node, account: Azurite, plain: str, tmp_path: Path) -> None:
    front = Front(account.port, lambda method, path: "/plain/" in path)
    try:
        source = plain.replace(account.url, front.url)
        done = node("run", "--source", source, "--target", str(tmp_path / "to"), "--stall", "6")
    finally:
        front.end()
    assert (done["status"], done["copied"]) == (1, 0)
    assert "the account throttles (503, 429): set a cap below its limit" in done["problem"]
    assert os.path.isdir(done["logs"])


def test_staging_waits_while_an_account_throttles(node: Node, account: Azurite, plain: str, tmp_path: Path) -> None:
    left = [3]

    def busy(method: str, path: str) -> bool:
        left[0] -= method == "GET" and "comp=" not in path
        return method == "GET" and "comp=" not in path and left[0] >= 0

    front = Front(account.port, busy)
    try:
        source = plain.replace(account.url, front.url)
        done = node("run", "--source", source, "--target", str(tmp_path / "to"))
    finally:
        front.end()
    assert (done["status"], done["copied"], left[0] < 0) == (0, 2, True)


def test_gzip_content_is_decompressed_and_its_checksum_verified(node: Node, account: Azurite, tmp_path: Path) -> None:
    url = account.container("gzipped")
    account.put("gzipped", "set/a.txt.gz", gzip.compress(TEXT), x_ms_blob_content_encoding="gzip")
    account.put(
        "gzipped", "set/two.txt.gz", gzip.compress(TEXT) + gzip.compress(b"more"), x_ms_blob_content_encoding="gzip"
    )
    account.put("gzipped", "set/archive.gz", gzip.compress(b"stays"))
    words = ["run", "--source", f"{url}/set", "--target", str(tmp_path / "to"), "--decompress"]
    done = node(*words)
    assert done["status"] == 0, done
    assert files_below(tmp_path / "to") == ["a.txt", "archive.gz", "two.txt"]
    assert (tmp_path / "to/a.txt").read_bytes() == TEXT
    assert (tmp_path / "to/two.txt").read_bytes() == TEXT + b"more"
    assert gzip.decompress((tmp_path / "to/archive.gz").read_bytes()) == b"stays"
    assert node(*words, "--full")["kept"] == 3


@pytest.mark.parametrize("harm", ["cut", "crc"])
def test_damaged_gzip_content_is_refused(node: Node, account: Azurite, tmp_path: Path, harm: str) -> None:
    # azcopy's own --decompress hangs on truncated content.
    url = account.container(f"harmed-{harm}")
    whole = bytearray(gzip.compress(TEXT))
    whole[-6] ^= 1
    account.put(
        f"harmed-{harm}",
        "a.gz",
        gzip.compress(TEXT)[:-2000] if harm == "cut" else bytes(whole),
        x_ms_blob_content_encoding="gzip",
    )
    done = node("run", "--source", url, "--target", str(tmp_path / "to"), "--decompress")
    assert (done["status"], done["left"]) == (1, ["a.gz"])
    assert ("is truncated" if harm == "cut" else "incorrect data check") in done["problem"]
    assert files_below(tmp_path / "to") == []


def test_a_name_that_azcopy_cannot_transfer_is_refused(node: Node, account: Azurite, tmp_path: Path) -> None:
    url = account.container("names")
    account.put("names", "good", b"1")
    account.put("names", "two\nlines", b"2")
    done = node("run", "--source", url, "--target", str(tmp_path / "to"))
    assert done["status"] == 3
    assert "has a newline or NUL, which ends a line of azcopy's list of files: rename the blob" in done["error"]
    assert files_below(tmp_path / "to") == []


def test_a_missing_azcopy_is_reported(node: Node, plain: str, tmp_path: Path) -> None:
    done = node("run", "--source", plain, "--target", str(tmp_path / "to"), "--azcopy", "/nonexistent/azcopy")
    assert "role hpcai.azure.blob_staging installs it" in done["error"]
