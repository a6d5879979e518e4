# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One listing for all nodes of a job: made once, kept beside the data, and told apart by its digest."""

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
    :ivar token: the run that made it; empty outside of Slurm.
    """

    location: str
    token: str
    blobs: tuple[Blob, ...]

    @property
    def digest(self) -> str:
        """What tells this listing from another one of other blobs."""
        made = hashlib.sha256(self.location.encode())
        for blob in sorted(self.blobs, key=lambda one: one.name):
            made.update(json.dumps(astuple(blob)).encode() + b"\n")
        return made.hexdigest()[:16]

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(blob.size for blob in self.blobs)


def token_of(variables: Mapping[str, str]) -> str:
    """Return what names this step of a job among all; empty outside of Slurm."""
    job = variables.get("SLURM_JOB_ID", "")
    if not job:
        return ""
    return f"{job}.{variables.get('SLURM_STEP_ID', 'batch')}.{variables.get('SLURM_RESTART_COUNT', '0')}"


def shared_listing(
    folder: str, first: bool, token: str, make: Callable[[], Sequence[Blob]], location: str, wait_s: float
) -> Listing:
    """Return the listing that all nodes of this run share through ``folder``.

    In a step of a job the first node lists, and the others wait for what it wrote with this step's token. Outside of
    one, what lies there is taken, and made where there is none; who comes second takes what the first one wrote.

    :raises ConfigError: the first node failed, or nothing of it can be seen in time.
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

    :param location: what it must be of, where that is known.
    :raises ConfigError: it is none, of another location or of a newer schema.
    """
    stated = _read(path)
    if stated.get("problem"):
        raise ConfigError(f"the first node could not list: {stated['problem']}")
    if location and stated.get("place") != location:
        raise ConfigError(
            f"{path} is a listing of {stated.get('place')}, not of {location}: name another state folder."
        )
    try:
        blobs = tuple(Blob(*one) for one in stated["blobs"])
        found = Listing(str(stated["place"]), str(stated["token"]), blobs)
        good = found.digest == stated["digest"]
    except (LookupError, TypeError):
        good = False
    if not good:
        raise ConfigError(f"{path} is damaged: its digest is another one. Remove it, and stage again.")
    return found


def _wait(path: str, token: str, location: str, wait_s: float) -> Listing:
    deadline = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(FileNotFoundError):
            if _read(path).get("token") == token:
                return read_listing(path, location)
        if time.monotonic() >= deadline:
            raise ConfigError(
                f"no listing of the first node in {os.path.dirname(path)} within {wait_s:g} s: is the target on a file "
                "system that all nodes share? To copy everything to each node's own disk, use --all."
            )
        time.sleep(_LOOK_S)


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            stated = json.load(file)
        except ValueError:
            stated = None
    if not isinstance(stated, dict) or not isinstance(stated.get("schema"), int):
        raise ConfigError(f"{path} is no listing: remove it, and stage again.")
    if stated["schema"] > SCHEMA:
        raise ConfigError(f"{path} has schema {stated['schema']}, and this hpcnode knows {SCHEMA} at most: update it.")
    return stated


def _write(path: str, stated: Mapping[str, Any]) -> None:
    write_file(path, json.dumps({"schema": SCHEMA, **stated}), 0o644)
