# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where a complete checkpoint comes from (its lineage), and a signature over it; and whether a checkpoint is intact.

::

    about/ID/lineage.json     recipe, commit, data, step that it continued from, nodes, versions
    about/ID/signature.json   a statement of hpcai-grants with the hashes of manifest and lineage, and its signature

The job's manifest has the hashes of the nodes' manifests, and these have those of all files. So one signature covers
each byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...machine.run import CommandFailed
from ...machine.vault_keys import PublicKey, decoded
from ..grants.client import GrantsError, ask
from ..grants.protocol import KEY, SIGN
from ..grants.signing import PURPOSE, SCHEMA, SignedStatement, key_of
from .directory import differences
from .manifest import JobManifest, Shard, job_manifest_text
from .names import Id
from .restore import Damaged, read_shards
from .store import Store, Stored, read_texts, sizes, write_text

Ask = Callable[[Mapping[str, str]], dict[str, Any]]
"""Sends a request to hpcai-grants; raises ``GrantsError``."""
_LONGEST_LINEAGE = 1 << 20
_MOST_BLOBS, _REPEATED = 500_000, 1 << 26
"""About half a GiB of memory for a listing, and bytes."""


class BadSignature(Damaged):
    """The checkpoint has no valid signature; the message says why."""


def read_lineage(path: str) -> str:
    """Return the text of a lineage.

    :raises CommandFailed: it is no JSON object, or longer than 1 MiB.
    :raises OSError: it cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(_LONGEST_LINEAGE + 1)
    try:
        valid = len(text) <= _LONGEST_LINEAGE and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        valid = False
    if not valid:
        raise CommandFailed(f"{path} is no lineage: expected a JSON object of at most 1 MiB.")
    return text


def attest(store: Store, manifest: JobManifest, address: str, lineage: str, signed: bool, request: Ask = ask) -> None:
    """Write the lineage of a complete checkpoint, and its signature. What exists stays.

    :param address: the URL of the series.
    :param lineage: its text; empty for none.
    :param signed: whether to sign.
    :raises CommandFailed: a blob cannot be written, or the service does not sign.
    """
    id_ = manifest.id
    there = {blob.name for blob in store.list(id_.about)}
    if lineage and id_.lineage not in there:
        write_text(store, id_.lineage, lineage)
        there.add(id_.lineage)
    if not signed or id_.signature in there:
        return
    stored = _text(store, id_.lineage) if id_.lineage in there else ""
    if lineage and stored != lineage:
        # A signature would attest what somebody else who may write there has put there first.
        raise CommandFailed(f"{id_.text} is not signed: {address} has another lineage of it, which stays.")
    wanted = {
        "ask": SIGN,
        "what": address,
        "checkpoint": id_.text,
        "manifest": _sha(job_manifest_text(manifest)),
        "lineage": _sha(stored) if stored else "",
    }
    try:
        answer = request(wanted)
    except GrantsError as error:
        raise CommandFailed(f"{id_.text} is not signed: {error}") from None
    found = {name: str(answer.get(name, "")) for name in ("statement", "key", "signature")}
    write_text(store, id_.signature, json.dumps({"schema": SCHEMA, **found}, indent=1, sort_keys=True) + "\n")


def lineage_of(store: Store, id_: Id) -> dict[str, Any]:
    """Return the lineage of a checkpoint; empty if it has none, or an invalid one."""
    if not any(blob.name == id_.lineage for blob in store.list(id_.about)):
        return {}
    try:
        found = json.loads(_text(store, id_.lineage))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Verifier:
    """Verifies signatures; each public key is requested once.

    :param address: the URL of the series.
    :param request: asks for a public key.
    """

    def __init__(self, store: Store, address: str, request: Ask = ask) -> None:
        self._store, self._address, self._request = store, address, request
        self._keys: dict[str, PublicKey] = {}

    def signer(self, manifest: JobManifest, required: bool) -> str:
        """Return who published a checkpoint, by its signature; empty if it has none, and none is required.

        :raises BadSignature: the signature is invalid or missing, or is that of something else.
        :raises CommandFailed: the public key or a blob cannot be read.
        """
        id_ = manifest.id
        there = {blob.name for blob in self._store.list(id_.about)}
        if id_.signature not in there:
            if required:
                raise BadSignature(f"{id_.text} is not signed.")
            return ""
        signed = _signed(_text(self._store, id_.signature), id_)
        try:
            good = self._key(signed.key).verifies(signed.statement.encode(), decoded(signed.signature))
            stated = json.loads(signed.statement) if good else None
        except (ValueError, RecursionError):
            stated = None
        if not isinstance(stated, dict):
            raise BadSignature(f"{id_.text}: its signature is not one of the cluster's key.")
        lineage = _text(self._store, id_.lineage) if id_.lineage in there else ""
        expected = {
            "schema": SCHEMA,
            "purpose": PURPOSE,
            "store": self._address,
            "checkpoint": id_.text,
            "manifest": _sha(job_manifest_text(manifest)),
            "lineage": _sha(lineage) if lineage else "",
        }
        for name, value in expected.items():
            if stated.get(name) != value:
                raise BadSignature(f"{id_.text}: its signature is valid, but for another {name}.")
        return str(stated.get("user", ""))

    def _key(self, version: str) -> PublicKey:
        if version not in self._keys:
            try:
                self._keys[version] = key_of(self._request({"ask": KEY, "what": version}), version)
            except GrantsError as error:
                raise CommandFailed(f"the public key {version} cannot be read: {error}") from None
        return self._keys[version]


class Bounded:
    """A store from which nothing is downloaded that would fill the disk of the work folder, or the memory.

    Whoever may write to the store chooses the sizes, also between a listing and a download. Root's service that
    verifies checkpoints runs on the controller, where slurmctld needs disk and memory.
    """

    most_text = 1 << 26
    """A parsed text takes up to 20 times its size, and the service's limit is 2 GiB."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.put, self.remove = store.put, store.remove

    @property
    def work(self) -> str:
        """See ``Store``."""
        return self._store.work

    def list(self, folder: str, most: int = _MOST_BLOBS) -> Sequence[Stored]:
        """See ``Store``."""
        return self._store.list(folder, most)

    def get(self, folder: str, names: Sequence[str], target: str, most: int = 0) -> None:
        """See ``Store``.

        :raises CommandFailed: it would take more than half of the free space.
        """
        stored = sizes(self.list(folder), folder)
        wanted, free = sum(stored.get(name, 0) for name in names), shutil.disk_usage(self.work).free
        if wanted > free // 2:
            raise CommandFailed(
                f"{folder} has {wanted} bytes to download, but only half of the {free} free bytes of {self.work} is "
                "used: name a folder on a larger disk with --work."
            )
        # azcopy counts what it repeats.
        self._store.get(folder, names, target, most or wanted + wanted // 8 + _REPEATED)


def check_files(store: Store, manifest: JobManifest, full: bool) -> None:
    """Verify that all files of a checkpoint are in the store.

    :param full: download them and compare their SHA-256, a part that fits at a time; otherwise only names and sizes.
    :raises Damaged: a file or manifest is missing or differs.
    :raises CommandFailed: the store cannot be read.
    """
    for shard in read_shards(store, manifest, list(range(manifest.id.world))):
        stored = sizes(store.list(shard.data), shard.data)
        lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
        if lacking:
            raise Damaged(
                f"{manifest.id.text} is damaged: {shard.data}{lacking[0]} is missing or has the wrong size "
                f"({len(lacking)} files of node {shard.rank})."
            )
        for part in _parts(shard, shutil.disk_usage(store.work).free // 4) if full else ():
            made = tempfile.mkdtemp(prefix="verify-", dir=store.work)
            try:
                store.get(shard.data, list(part), made)
                wrong = differences(made, part)
            finally:
                shutil.rmtree(made, ignore_errors=True)
            if wrong:
                raise Damaged(f"{manifest.id.text} is damaged: {shard.data}{wrong[0]} has another content.")


def _parts(shard: Shard, most: int) -> Iterator[dict[str, tuple[int, str]]]:
    """Yield size and hash of the files by path, in parts of at most so many bytes; a larger file is a part alone."""
    part: dict[str, tuple[int, str]] = {}
    total = 0
    for one in shard.files:
        if part and total + one.size > most:
            yield part
            part, total = {}, 0
        part[one.path] = one.size, one.sha256
        total += one.size
    if part:
        yield part


def archive(store: Store, folder: str, more: list[str]) -> list[str]:
    """Upload the files of a job folder, and further files, to ``outputs/NAME/``; return their names in the store.

    Only files directly in the folder are archived. What an earlier run of the job archived is replaced.

    :raises CommandFailed: an upload failed.
    :raises OSError: the folder cannot be read.
    """
    target = f"outputs/{os.path.basename(os.path.abspath(folder))}/"
    with os.scandir(folder) as listed:
        names = sorted(one.name for one in listed if one.is_file(follow_symlinks=False))
    if names:
        store.put(folder, names, target)
    for path in more:
        parent, _slash, name = os.path.abspath(path).rpartition("/")
        store.put(parent or "/", [name], target)
        names.append(name)
    return [f"{target}{name}" for name in names]


def _signed(text: str, id_: Id) -> SignedStatement:
    try:
        given = json.loads(text)
        found = SignedStatement(*(given[name] for name in ("statement", "key", "signature")))
        valid = all(isinstance(one, str) for one in (found.statement, found.key, found.signature))
    except (ValueError, LookupError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise BadSignature(f"{id_.signature} is no signature.")
    return found


def _text(store: Store, name: str) -> str:
    folder, _slash, last = name.rpartition("/")
    # A character of a lineage has up to four bytes.
    return read_texts(store, f"{folder}/", [last], 4 * _LONGEST_LINEAGE)[last]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
