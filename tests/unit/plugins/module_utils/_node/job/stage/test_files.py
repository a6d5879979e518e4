# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What lies beside the data: listing, manifests, and the files themselves on their way to their names."""

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
    """A listing that must not be made."""
    raise AssertionError("listed twice")


def test_the_others_take_the_listing_of_this_steps_first_node(tmp_path: Path) -> None:
    shared_listing(str(tmp_path), True, "1.0.0", lambda: [Blob("old", 1)], LOCATION, 1)
    later = threading.Timer(0.7, lambda: shared_listing(str(tmp_path), True, "1.1.0", lambda: BLOBS, LOCATION, 1))
    later.start()
    found = shared_listing(str(tmp_path), False, "1.1.0", never, LOCATION, 10)
    later.join()
    assert found.blobs == tuple(BLOBS)


def test_a_first_node_that_fails_or_is_not_seen_is_told(tmp_path: Path) -> None:
    def fails() -> list[Blob]:
        raise ConfigError("the SAS is wrong")

    with pytest.raises(ConfigError, match="the SAS is wrong"):
        shared_listing(str(tmp_path), True, "1.0.0", fails, LOCATION, 1)
    with pytest.raises(ConfigError, match="the first node could not list the source: the SAS is wrong"):
        shared_listing(str(tmp_path), False, "1.0.0", never, LOCATION, 1)
    with pytest.raises(ConfigError, match="use --all"):
        shared_listing(str(tmp_path), False, "1.0.1", never, LOCATION, 0.1)


def test_outside_of_slurm_the_first_listing_counts_for_all(tmp_path: Path) -> None:
    assert token_of({}) == ""
    first = shared_listing(str(tmp_path), True, "", lambda: BLOBS, LOCATION, 1)
    assert shared_listing(str(tmp_path), False, "", never, LOCATION, 1).digest == first.digest
    with pytest.raises(ConfigError, match="is a listing of"):
        shared_listing(str(tmp_path), False, "", never, "https://other", 1)


def test_a_name_that_cannot_be_carried_stops_all_nodes(tmp_path: Path) -> None:
    with pytest.raises(NameRefused):
        shared_listing(str(tmp_path), True, "1.0.0", lambda: [Blob("two\nlines", 1)], LOCATION, 1)
    with pytest.raises(ConfigError, match="newline"):
        shared_listing(str(tmp_path), False, "1.0.0", never, LOCATION, 1)


@pytest.mark.parametrize("blob", [Blob("a", 2, "m", "", "t"), Blob("a", 1, "n", "", "t"), Blob("a", 1, "m", "", "u")])
def test_a_digest_tells_listings_apart(blob: Blob) -> None:
    here = Listing(LOCATION, "x", tuple(BLOBS))
    assert here.digest == Listing(LOCATION, "y", tuple(reversed(BLOBS))).digest
    assert here.digest != Listing(LOCATION, "x", (blob, BLOBS[1])).digest


def test_a_listing_that_was_changed_or_is_newer_is_refused(tmp_path: Path) -> None:
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


def test_a_new_run_keeps_what_is_known_and_the_number_of_shards_may_change(tmp_path: Path) -> None:
    one = Staged("x", "x", 5, "", "t", 5, "s")
    Journal(str(tmp_path / file_name(0, 2)), Header("d", 0, 2), {"x": one}).close()
    Journal(str(tmp_path / file_name(0, 3)), Header("d", 0, 3), {}).close()
    assert entries_of(str(tmp_path)) == {"x": [one]}
    assert entries_of(str(tmp_path / "none")) == {}


def test_a_file_was_staged_from_this_very_blob_only_if_all_agrees() -> None:
    one = Staged("a", "a", 1, "m", "t", 1, "s")
    assert one.is_of(BLOBS[0])
    for other in (Blob("a", 2, "m", "", "t"), Blob("a", 1, "n", "", "t"), Blob("a", 1, "m", "", "u")):
        assert not one.is_of(other)


def test_names_on_disk_are_without_gz_where_they_are_decompressed() -> None:
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
def test_names_that_cannot_lie_beside_each_other_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(NameRefused, match=words):
        paths_of([Blob(name, 1, encoding="gzip") for name in names], True)


def arrived(folder: Path, content: bytes, **facts: object) -> tuple[Blob, str]:
    """A file that azcopy has brought, and the blob it should be."""
    (folder / "in").mkdir()
    path = folder / "in/x"
    path.write_bytes(content)
    given = {"size": len(content), "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(), **facts}
    return Blob("x", **given), str(path)  # type: ignore[arg-type]


def test_a_file_gets_its_name_when_it_is_right(tmp_path: Path) -> None:
    blob, source = arrived(tmp_path, b"data" * 1000)
    staged = accept(blob, source, str(tmp_path / "to"), "deep/x", unpack=False)
    assert (tmp_path / "to/deep/x").read_bytes() == b"data" * 1000
    assert staged.sha256 == hashlib.sha256(b"data" * 1000).hexdigest()
    assert not list((tmp_path / "in").iterdir())


@pytest.mark.parametrize("facts", [{"size": 3}, {"md5": "0" * 32}])
def test_a_file_that_is_another_one_gets_none(tmp_path: Path, facts: dict[str, object]) -> None:
    blob, source = arrived(tmp_path, b"data", **facts)
    with pytest.raises(NotAccepted, match="the blob has changed"):
        accept(blob, source, str(tmp_path / "to"), "x", unpack=False)
    assert not list((tmp_path / "to").iterdir())
    assert not list((tmp_path / "in").iterdir())


@pytest.mark.parametrize("tail", [b"", b"\0" * 700, gzip.compress(b"and more")], ids=["one", "padded", "two"])
def test_gzip_of_several_members_and_with_padding_is_decompressed(tmp_path: Path, tail: bytes) -> None:
    content = bytes(40_000_000)
    blob, source = arrived(tmp_path, gzip.compress(content) + tail)
    staged = accept(blob, source, str(tmp_path / "to"), "x", unpack=True)
    expected = content + (b"and more" if tail.startswith(b"\x1f") else b"")
    assert (staged.size, staged.sha256) == (len(expected), hashlib.sha256(expected).hexdigest())
    assert staged.stored == blob.size


@pytest.mark.parametrize("harm", ["cut", "crc", "length", "none", "rest"])
def test_gzip_that_is_damaged_is_refused(tmp_path: Path, harm: str) -> None:
    packed = bytearray(gzip.compress(b"some text " * 5000))
    if harm in ("crc", "length"):
        packed[-6 if harm == "crc" else -1] ^= 1
    content = {"cut": bytes(packed[:-9]), "none": b"plain", "rest": bytes(packed) + b"rest"}.get(harm, bytes(packed))
    blob, source = arrived(tmp_path, content)
    with pytest.raises(NotAccepted, match="upload it again"):
        accept(blob, source, str(tmp_path / "to"), "x", unpack=True)
    assert not list((tmp_path / "to").iterdir())


def test_settings_of_a_node_are_read_and_checked(tmp_path: Path) -> None:
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
