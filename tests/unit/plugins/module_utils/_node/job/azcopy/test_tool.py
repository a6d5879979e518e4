# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running azcopy, replaced by a script that prints lines recorded from azcopy 10.32.2."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import Credential
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.location import parse_location
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import Limits
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import BlobError, event_of, why_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.tool import Azcopy
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.transfer import (
    download,
    list_blobs,
    remove,
    upload,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.store import AzcopyStore
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

LOCATION = parse_location("http://127.0.0.1:1/acc/data/set")
URL = "http://127.0.0.1:1/acc/data/set"
DENIED = "RESPONSE 403: 403 Server failed to authenticate the request.\nERROR CODE: AuthorizationFailure\n"


def line(kind: str, content: object) -> str:
    """A line of azcopy's JSON output."""
    text = content if isinstance(content, str) else json.dumps(content)
    return json.dumps({"TimeStamp": "2026-11-23T02:35:28Z", "MessageType": kind, "MessageContent": text})


def numbers(done: int, failed: int, total: int, **more: object) -> dict[str, object]:
    """The counters of a job."""
    counts = {"TransfersCompleted": str(done), "TransfersFailed": str(failed), "TotalTransfers": str(total)}
    return {"JobStatus": "Completed", **counts, "BytesOverWire": "7", "TotalBytesTransferred": "7", **more}


class FakeAzcopy:
    """A script in the place of azcopy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "azcopy"

    def printing(self, *lines: str, rc: int = 0, then: str = "") -> Azcopy:
        """Make the script run ``then``, print these lines and exit with ``rc``."""
        (self.folder / "said").write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
        script = f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.folder}/asked\nenv > {self.folder}/environment\n{then}\n'
        self.program.write_text(f"{script}cat {self.folder}/said\nexit {rc}\n", encoding="utf-8")
        self.program.chmod(0o755)
        limits = Limits(cap_mbps=16, total_s=20, stall_s=1.5)
        return Azcopy(str(self.folder / "job"), Credential("sas", token="sig=secret"), limits, str(self.program))

    @property
    def asked(self) -> list[str]:
        """The arguments of the last call."""
        return (self.folder / "asked").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def fake(tmp_path: Path) -> FakeAzcopy:
    """A fake azcopy."""
    return FakeAzcopy(tmp_path)


def test_lists_blobs_with_their_md5_in_hexadecimal(fake: FakeAzcopy) -> None:
    tool = fake.printing(
        line("Info", "INFO: NOTE: HTTP is in use"),
        line("ListObject", {"Path": "b", "LastModifiedTime": "2026-11-23T02:35:27Z", "ContentLength": "3"}),
        line("ListObject", {"Path": "folder/", "ContentLength": "0"}),
        line(
            "ListObject",
            {"Path": "a", "ContentMD5": "YLcl8QychccNl4gN/oGRsw==", "ContentLength": "2", "ContentEncoding": "gzip"},
        ),
        line("EndOfJob", ""),
    )
    found = list_blobs(tool, LOCATION)
    assert [(blob.name, blob.size, blob.md5, blob.encoding) for blob in found] == [
        ("a", 2, "60b725f10c9c85c70d97880dfe8191b3", "gzip"),
        ("b", 3, "", ""),
    ]
    assert fake.asked[:2] == ["list", f"{URL}/?sig=secret"]


def test_a_listing_with_too_many_blobs_stops(fake: FakeAzcopy) -> None:
    blobs = [line("ListObject", {"Path": f"b{number}", "ContentLength": "3"}) for number in range(3)]
    tool = fake.printing(*blobs, then="")
    assert len(list_blobs(tool, LOCATION, 3)) == 3
    with pytest.raises(BlobError, match="has more than 2 blobs"):
        list_blobs(tool, LOCATION, 2)


@pytest.mark.parametrize("counter", ["TotalBytesTransferred", "TotalBytesExpected"])
def test_a_download_of_more_than_was_listed_stops_at_once(fake: FakeAzcopy, tmp_path: Path, counter: str) -> None:
    output = line("Progress", numbers(0, 0, 1, **{"TotalBytesExpected": "0", counter: "4096"}))
    (tmp_path / "progress").write_text(f"{output}\n", encoding="utf-8")
    tool = replace(fake.printing(then=f"cat {tmp_path}/progress; sleep 60"), limits=Limits(total_s=90, stall_s=60))
    began = time.monotonic()
    with pytest.raises(CommandFailed, match="has more than the 4000 bytes that were listed"):
        AzcopyStore(tool, LOCATION).get("data/", ["a"], str(tmp_path / "to"), 4000)
    assert time.monotonic() - began < 30


def test_missing_files_fail_a_download_that_azcopy_calls_completed(fake: FakeAzcopy, tmp_path: Path) -> None:
    cause = f"cannot list files due to reason HEAD {URL}/a\n{DENIED}"
    skipped = f"INFO: Skipping a b as it cannot be scanned due to error: {cause}"
    tool = fake.printing(line("Info", skipped), line("EndOfJob", numbers(0, 0, 0)))
    done = download(tool, LOCATION, ["a b", "gone"], str(tmp_path / "to"))
    assert [(failure.name, failure.why) for failure in done.failures] == [("a b", "denied"), ("gone", "vanished")]
    assert "'a b': access was denied (403)" in done.sentence()
    with pytest.raises(BlobError, match="access was denied"):
        done.must()


def test_a_capped_download_sets_the_block_size_and_hides_the_secret(fake: FakeAzcopy, tmp_path: Path) -> None:
    tool = fake.printing(line("EndOfJob", numbers(1, 0, 1)), then=f"mkdir -p {tmp_path}/to; echo > {tmp_path}/to/a")
    assert download(tool, LOCATION, ["a"], str(tmp_path / "to")).done
    asked = fake.asked
    assert asked[asked.index("--cap-mbps") + 1] == "16"
    assert asked[asked.index("--block-size-mb") + 1] == "1"
    assert asked[asked.index("--from-to") + 1] == "BlobLocal"
    assert "sig=secret" not in (tmp_path / "environment").read_text(encoding="utf-8")
    assert not list((tmp_path / "job").glob("list.*"))


def test_failures_come_from_all_lines_and_causes_from_the_log(fake: FakeAzcopy, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        f"2026/11/23 02:38:07 ERR: [P#0-T#0] DOWNLOADFAILED: {URL}/big%20one : 000 : "
        "File Creation Error no space left on device\n   Dst: /x\n",
        encoding="utf-8",
    )
    failed = {"Src": f"{URL}/big%20one", "Dst": "/x", "ErrorCode": "0"}
    tool = fake.printing(
        line("Init", {"LogFileLocation": str(log)}),
        line("Progress", numbers(0, 1, 1, FailedTransfers=[failed])),
        line("EndOfJob", numbers(0, 1, 1, FailedTransfers=[])),
        rc=1,
    )
    done = download(tool, LOCATION, ["big one"], str(tmp_path / "to"))
    assert [(failure.name, failure.why) for failure in done.failures] == [("big one", "full")]


def test_files_missing_from_an_upload_are_reported(fake: FakeAzcopy, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", encoding="utf-8")
    (tmp_path / "b").write_text("x", encoding="utf-8")
    tool = fake.printing(line("EndOfJob", numbers(1, 0, 1)))
    done = upload(tool, str(tmp_path), ["a", "b"], LOCATION)
    assert done.sentence() == "azcopy transferred 1 of 2 files and reported no error"
    assert "--put-md5" in fake.asked
    assert "no such file" in upload(tool, str(tmp_path), ["c"], LOCATION).sentence()


def test_removing_a_missing_blob_succeeds(fake: FakeAzcopy) -> None:
    failed = {"Src": f"{URL}/a", "ErrorCode": "404"}
    tool = fake.printing(line("Progress", numbers(0, 1, 1, FailedTransfers=[failed])), rc=1)
    assert remove(tool, LOCATION, ["a"]).done


def test_a_stalled_azcopy_is_killed(fake: FakeAzcopy, tmp_path: Path) -> None:
    tool = fake.printing(then=f"echo $$ > {tmp_path}/pid; sleep 60")
    began = time.monotonic()
    done = download(tool, LOCATION, ["a"], str(tmp_path / "to"))
    assert time.monotonic() - began < 10
    assert (done.why, done.words) == ("stalled", "the transfer stalled (no progress for 1.5 s)")
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text(encoding='utf-8').strip()}")


def test_a_stall_while_the_server_is_busy_counts_as_throttled(fake: FakeAzcopy, tmp_path: Path) -> None:
    output = line("Progress", numbers(0, 0, 1, ServerBusyPercentage="60"))
    tool = fake.printing(then=f"cat {tmp_path}/said; sleep 60")
    (tmp_path / "said").write_text(f"{output}\n", encoding="utf-8")
    done = download(tool, LOCATION, ["a"], str(tmp_path / "to"))
    assert done.why == "throttled"
    assert "set a cap below its limit" in done.sentence()


def test_a_crash_is_reported_with_azcopys_message(fake: FakeAzcopy) -> None:
    tool = fake.printing("panic: runtime error: invalid memory address", rc=2)
    with pytest.raises(BlobError, match="cannot be listed: panic: runtime error"):
        list_blobs(tool, LOCATION)
    lacks = "azcopy: error while loading shared libraries: libsecret-1.so.0: cannot open shared object file"
    with pytest.raises(BlobError, match=r"role hpcai\.azure\.blob_staging installs it, together with libsecret"):
        list_blobs(fake.printing(lacks, rc=127), LOCATION)


# At the end of a job, Slurm sends SIGTERM to azcopy too.
def test_a_signal_that_ends_azcopy_is_reported(fake: FakeAzcopy, tmp_path: Path) -> None:
    tool = fake.printing(then="kill -TERM $$")
    with pytest.raises(BlobError, match=r"cannot be listed: azcopy was ended by signal 15\.$"):
        list_blobs(tool, LOCATION)
    for done in (
        download(tool, LOCATION, ["a"], str(tmp_path / "to")),
        upload(tool, str(tmp_path), ["said"], LOCATION),
        remove(tool, LOCATION, ["a"]),
    ):
        assert not done.done
        assert done.words == "azcopy was ended by signal 15"


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "{}", '{"MessageType": "x"}', '{"MessageType":1,"MessageContent":"{x"}']
)
def test_unexpected_output_lines_are_ignored(text: str) -> None:
    assert event_of(text).number("x") == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RESPONSE 404: 404 The specified container does not exist.\nERROR CODE: ContainerNotFound", "no_container"),
        ("RESPONSE 404: 404 The specified blob does not exist.", "vanished"),
        (DENIED, "denied"),
        ("RESPONSE 503: 503 The server is busy", "throttled"),
        ("dial tcp: lookup x: no such host", "unresolved"),
        ("dial tcp 10.0.0.4:443: connect: connection refused", "unreachable"),
        ("the sky is green", "other"),
    ],
)
def test_causes_are_recognised_by_azcopys_messages(text: str, why: str) -> None:
    assert why_of(text) == why
