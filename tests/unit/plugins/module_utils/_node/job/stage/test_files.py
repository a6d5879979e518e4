# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a staging run: the listing, the manifests, and the received files until they have their names."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import checked
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.location import NameRefused
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import FORM, read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import Blob
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.listing import (
    FILE,
    Listing,
    read_listing,
    shared_listing,
    token_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.manifest import (
    Header,
    Journal,
    Staged,
    entries_of,
    file_name,
    read_manifests,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.options import paths_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.receive import NotAccepted, accept
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

LOCATION = "https://a.blob.core.windows.net/data/"
BLOBS = [Blob("a", 1, "m", "", "t"), Blob("b", 2)]


def never() -> list[Blob]:
    """Fail if a listing is requested."""
    raise AssertionError("listed twice")


def test_other_nodes_use_the_listing_of_this_steps_first_node(tmp_path: Path) -> None:
    shared_listing(str(tmp_path), True, "1.0.0", lambda: [Blob("old", 1)], LOCATION, 1)
    later = threading.Timer(0.7, lambda: shared_listing(str(tmp_path), True, "1.1.0", lambda: BLOBS, LOCATION, 1))
    later.start()
    found = shared_listing(str(tmp_path), False, "1.1.0", never, LOCATION, 10)
    later.join()
    assert found.blobs == tuple(BLOBS)


def test_a_first_node_that_fails_or_is_missing_is_reported(tmp_path: Path) -> None:
    def fails() -> list[Blob]:
        raise ConfigError("the SAS is wrong")

    with pytest.raises(ConfigError, match="the SAS is wrong"):
        shared_listing(str(tmp_path), True, "1.0.0", fails, LOCATION, 1)
    with pytest.raises(ConfigError, match="the first node could not list the source: the SAS is wrong"):
        shared_listing(str(tmp_path), False, "1.0.0", never, LOCATION, 1)
    with pytest.raises(ConfigError, match="use --all"):
        shared_listing(str(tmp_path), False, "1.0.1", never, LOCATION, 0.1)


def test_outside_slurm_all_use_the_first_listing(tmp_path: Path) -> None:
    assert token_of({}) == ""
    first = shared_listing(str(tmp_path), True, "", lambda: BLOBS, LOCATION, 1)
    assert shared_listing(str(tmp_path), False, "", never, LOCATION, 1).digest == first.digest
    with pytest.raises(ConfigError, match="is a listing of"):
        shared_listing(str(tmp_path), False, "", never, "https://other", 1)


def test_a_name_that_azcopy_cannot_transfer_stops_all_nodes(tmp_path: Path) -> None:
    with pytest.raises(NameRefused):
        shared_listing(str(tmp_path), True, "1.0.0", lambda: [Blob("two\nlines", 1)], LOCATION, 1)
    with pytest.raises(ConfigError, match="newline"):
        shared_listing(str(tmp_path), False, "1.0.0", never, LOCATION, 1)


@pytest.mark.parametrize("blob", [Blob("a", 2, "m", "", "t"), Blob("a", 1, "n", "", "t"), Blob("a", 1, "m", "", "u")])
def test_different_listings_have_different_digests(blob: Blob) -> None:
    here = Listing(LOCATION, "x", tuple(BLOBS))
    assert here.digest == Listing(LOCATION, "y", tuple(reversed(BLOBS))).digest
    assert here.digest != Listing(LOCATION, "x", (blob, BLOBS[1])).digest


def test_a_changed_listing_or_a_newer_schema_is_refused(tmp_path: Path) -> None:
    shared_listing(str(tmp_path), True, "", lambda: BLOBS, LOCATION, 1)
    path = tmp_path / FILE
    stated = json.loads(path.read_text(encoding="utf-8"))
    for change, words in (({"blobs": stated["blobs"][:1]}, "is damaged"), ({"schema": 2}, "supports at most 1")):
        path.write_text(json.dumps({**stated, **change}), encoding="utf-8")
        with pytest.raises(ConfigError, match=words):
            read_listing(str(path))


def test_a_manifest_survives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / file_name(1, 4)
    one, two = (Staged(name, name, 5, "", "t", 5, "s") for name in "xy")
    journal = Journal(str(path), Header("d", 1, 4), {})
    journal.add(one)
    journal.add(two)
    journal.close()
    text = path.read_text(encoding="utf-8")
    for lost in (1, 10):
        path.write_text(text[:-lost], encoding="utf-8")
        assert entries_of(str(tmp_path)) == {"x": [one]}
    path.write_text(text[:20], encoding="utf-8")
    assert list(read_manifests(str(tmp_path))) == []


def test_manifests_are_kept_if_the_number_of_shards_changes(tmp_path: Path) -> None:
    one = Staged("x", "x", 5, "", "t", 5, "s")
    Journal(str(tmp_path / file_name(0, 2)), Header("d", 0, 2), {"x": one}).close()
    Journal(str(tmp_path / file_name(0, 3)), Header("d", 0, 3), {}).close()
    assert entries_of(str(tmp_path)) == {"x": [one]}
    assert entries_of(str(tmp_path / "none")) == {}


def test_a_file_is_of_a_blob_only_if_all_properties_match() -> None:
    one = Staged("a", "a", 1, "m", "t", 1, "s")
    assert one.is_of(BLOBS[0])
    for other in (Blob("a", 2, "m", "", "t"), Blob("a", 1, "n", "", "t"), Blob("a", 1, "m", "", "u")):
        assert not one.is_of(other)


def test_decompressed_files_have_names_without_gz() -> None:
    blobs = [
        Blob("d/a.gz", 1, encoding="gzip"),
        Blob("b.gz", 1),
        Blob("c.gzip", 1, encoding="gzip"),
        Blob(".gz", 1, encoding="gzip"),
    ]
    assert paths_of(blobs, True) == {"d/a.gz": "d/a", "b.gz": "b.gz", "c.gzip": "c", ".gz": ".gz"}
    assert paths_of(blobs, False)["d/a.gz"] == "d/a.gz"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "a.gz"], "would both become 'a'"),
        (["a", "a/b"], "would be a file and the parent folder of"),
        ([".hpcai-stage/x"], "the folder of the manifests"),
    ],
)
def test_names_that_conflict_on_disk_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(NameRefused, match=words):
        paths_of([Blob(name, 1, encoding="gzip") for name in names], True)


def received_file(folder: Path, content: bytes, **facts: object) -> tuple[Blob, str]:
    """Create a file that azcopy received; return its expected blob and its path."""
    (folder / "in").mkdir()
    path = folder / "in/x"
    path.write_bytes(content)
    given = {"size": len(content), "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(), **facts}
    return Blob("x", **given), str(path)  # type: ignore[arg-type]


def test_a_correct_file_gets_its_final_name(tmp_path: Path) -> None:
    blob, source = received_file(tmp_path, b"data" * 1000)
    staged = accept(blob, source, str(tmp_path / "to"), "deep/x", unpack=False)
    assert (tmp_path / "to/deep/x").read_bytes() == b"data" * 1000
    assert staged.sha256 == hashlib.sha256(b"data" * 1000).hexdigest()
    assert not list((tmp_path / "in").iterdir())


@pytest.mark.parametrize("facts", [{"size": 3}, {"md5": "0" * 32}])
def test_a_file_that_differs_from_its_blob_is_removed(tmp_path: Path, facts: dict[str, object]) -> None:
    blob, source = received_file(tmp_path, b"data", **facts)
    with pytest.raises(NotAccepted, match="the blob has changed"):
        accept(blob, source, str(tmp_path / "to"), "x", unpack=False)
    assert not list((tmp_path / "to").iterdir())
    assert not list((tmp_path / "in").iterdir())


@pytest.mark.parametrize("tail", [b"", b"\0" * 700, gzip.compress(b"and more")], ids=["one", "padded", "two"])
def test_gzip_with_several_members_or_padding_is_decompressed(tmp_path: Path, tail: bytes) -> None:
    content = bytes(40_000_000)
    blob, source = received_file(tmp_path, gzip.compress(content) + tail)
    staged = accept(blob, source, str(tmp_path / "to"), "x", unpack=True)
    expected = content + (b"and more" if tail.startswith(b"\x1f") else b"")
    assert (staged.size, staged.sha256) == (len(expected), hashlib.sha256(expected).hexdigest())
    assert staged.stored == blob.size


@pytest.mark.parametrize("harm", ["cut", "crc", "length", "none", "rest"])
def test_damaged_gzip_is_refused(tmp_path: Path, harm: str) -> None:
    packed = bytearray(gzip.compress(b"some text " * 5000))
    if harm in ("crc", "length"):
        packed[-6 if harm == "crc" else -1] ^= 1
    content = {"cut": bytes(packed[:-9]), "none": b"plain", "rest": bytes(packed) + b"rest"}.get(harm, bytes(packed))
    blob, source = received_file(tmp_path, content)
    with pytest.raises(NotAccepted, match="upload it again"):
        accept(blob, source, str(tmp_path / "to"), "x", unpack=True)
    assert not list((tmp_path / "to").iterdir())


def test_a_nodes_settings_are_read_and_checked(tmp_path: Path) -> None:
    assert read_settings(Root(str(tmp_path))).credential == "identity"
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/blob.json").write_text('{"schema": 1, "processes": 8, "account_gbps": 20}', encoding="utf-8")
    assert read_settings(Root(str(tmp_path))).processes == 8
    for wrong in ({"processes": 0}, {"processes": "8"}, {"credential": "x"}, {"other": 1}, {"work_folder": "tmp"}):
        with pytest.raises(ConfigError, match=r"blob\.json"):
            checked(FORM, wrong, "blob.json")
    (tmp_path / "etc/hpcai/blob.json").write_text('{"schema": 2}', encoding="utf-8")
    with pytest.raises(ConfigError, match="schema 2"):
        read_settings(Root(str(tmp_path)))
