# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One listing for all nodes of a job: created once, stored with the data, and identified by its digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from ...machine.atomic import write_file
from ...machine.config import SCHEMA, ConfigError
from ..azcopy.location import check_names
from ..azcopy.output import Blob

_LOOK_S = 0.5
FILE = "listing.json"


@dataclass(frozen=True)
class Listing:
    """The blobs of a location at one time.

    :ivar location: its address.
    :ivar token: the run that created it; empty outside of Slurm.
    """

    location: str
    token: str
    blobs: tuple[Blob, ...]

    @property
    def digest(self) -> str:
        """A digest that identifies the location and its blobs."""
        made = hashlib.sha256(self.location.encode())
        for blob in sorted(self.blobs, key=lambda one: one.name):
            made.update(json.dumps(astuple(blob)).encode() + b"\n")
        return made.hexdigest()[:16]

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(blob.size for blob in self.blobs)


def token_of(variables: Mapping[str, str]) -> str:
    """Return a unique id of this job step; empty outside of Slurm."""
    job = variables.get("SLURM_JOB_ID", "")
    if not job:
        return ""
    return f"{job}.{variables.get('SLURM_STEP_ID', 'batch')}.{variables.get('SLURM_RESTART_COUNT', '0')}"


def shared_listing(
    folder: str, first: bool, token: str, make: Callable[[], Sequence[Blob]], location: str, wait_s: float
) -> Listing:
    """Return the listing that all nodes of this run share through ``folder``.

    In a job step, the first node lists the blobs, and the others wait for its file with this step's token. Outside of a
    job step, an existing file is used, or created if there is none; of two processes, the second uses the first one's.

    :raises ConfigError: the first node failed, or its file did not appear in time.
    """
    path = os.path.join(folder, FILE)
    if token and not first:
        return _wait(path, token, location, wait_s)
    if not token and os.path.exists(path):
        return read_listing(path, location)
    try:
        blobs = tuple(make())
        check_names(blob.name for blob in blobs)
    except Exception as error:
        if token:
            _write(path, {"place": location, "token": token, "problem": str(error)})
        raise
    made = Listing(location, token, blobs)
    stated = {"place": location, "token": token, "digest": made.digest, "blobs": [astuple(blob) for blob in blobs]}
    if token:
        _write(path, stated)
        return made
    other = f"{path}.{os.getpid()}"
    _write(other, stated)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(other, path)
    finally:
        os.unlink(other)
    return read_listing(path, location)


def read_listing(path: str, location: str = "") -> Listing:
    """Return the listing in a file.

    :param location: the location that it must have, if known.
    :raises ConfigError: the file is invalid, of another location or of a newer schema.
    """
    stated = _read(path)
    if stated.get("problem"):
        raise ConfigError(f"the first node could not list the source: {stated['problem']}")
    if location and stated.get("place") != location:
        raise ConfigError(f"{path} is a listing of {stated.get('place')}, not of {location}: use another state folder.")
    try:
        blobs = tuple(Blob(*one) for one in stated["blobs"])
        found = Listing(str(stated["place"]), str(stated["token"]), blobs)
        good = found.digest == stated["digest"]
    except (LookupError, TypeError):
        good = False
    if not good:
        raise ConfigError(f"{path} is damaged: its digest does not match. Remove it, and stage again.")
    return found


def _wait(path: str, token: str, location: str, wait_s: float) -> Listing:
    deadline = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(FileNotFoundError):
            if _read(path).get("token") == token:
                return read_listing(path, location)
        if time.monotonic() >= deadline:
            raise ConfigError(
                f"no listing of the first node in {os.path.dirname(path)} within {wait_s:g} s: the target must be on a "
                "file system that all nodes share. To copy everything to each node's own disk, use --all."
            )
        time.sleep(_LOOK_S)


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            stated = json.load(file)
        except ValueError:
            stated = None
    if not isinstance(stated, dict) or not isinstance(stated.get("schema"), int):
        raise ConfigError(f"{path} is not a valid listing: remove it, and stage again.")
    if stated["schema"] > SCHEMA:
        raise ConfigError(
            f"{path} has schema {stated['schema']}, but this hpcnode supports at most {SCHEMA}: update hpcnode."
        )
    return stated


def _write(path: str, stated: Mapping[str, Any]) -> None:
    write_file(path, json.dumps({"schema": SCHEMA, **stated}), 0o644)
