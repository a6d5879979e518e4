# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a controller must not lose: the queue and the accounting. Where they are, and what a dump of them is.

A dump is a folder, named after the cluster and the time, with a manifest, the database as SQL, and slurmctld's
StateSaveLocation as a tar archive. A host that has only one of the two dumps that one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..forms import instance_of, number, string
from ..machine.config import read_checked
from ..machine.root import Root
from ..machine.run import Run

CONFIG = "slurm_state"
"""Settings in /etc/hpcai/slurm_state.json."""
MANIFEST, DATABASE, STATE = "manifest.json", "database.sql", "state.tar"
SCHEMA = 1
LOCK = "/run/hpcai/slurm-state.lock"
_DUMP = re.compile(r"(?P<cluster>[A-Za-z0-9][A-Za-z0-9_.-]*)-(?P<time>\d{8}T\d{6}Z)")
_VERSION = re.compile(r"(\d+\.\d+)\.\d+")
# Until 24.05 a release came every nine months, from then on each May and November (slurm.schedmd.com/upgrades.html).
_FIRST = ("20.02", "20.11", "21.08", "22.05", "23.02", "23.11")


class Refused(RuntimeError):
    """It would lose something, or cannot work; the message says what to do."""


@dataclass(frozen=True)
class Place:
    """Where a host's state is.

    :ivar cluster: Slurm's name of the cluster.
    :ivar state: slurmctld's StateSaveLocation; empty on a host without slurmctld.
    :ivar database: name of slurmdbd's database; empty on a host without it.
    :ivar path: folder of the dumps; empty where none are made.
    :ivar keep: how many are kept.
    """

    cluster: str
    state: str
    database: str
    path: str = ""
    keep: int = 7


_FORM = instance_of(
    Place, {"cluster": string, "state": string, "database": string, "path": string, "keep": number(integral=True)}
)


def read_place(root: Root) -> Place | None:
    """Return what the role wrote; None where it did not.

    :raises ConfigError: the file cannot be used.
    """
    return read_checked(root, CONFIG, _FORM)


def release_of(program: str, run: Run) -> str:
    """Return the release of an installed daemon, e.g. ``22.05``; empty where it is not installed."""
    match = _VERSION.search(run([program, "-V"]).stdout)
    return match[1] if match else ""


def installed_release(place: Place, run: Run) -> str:
    """Return the release of the Slurm that is installed here; empty where there is none."""
    return next(filter(None, (release_of(name, run) for name in ("slurmctld", "slurmdbd"))), "")


def releases_apart(older: str, newer: str) -> int:
    """Return how many releases one is after the other; negative where it is before.

    :raises Refused: one is no release of Slurm.
    """
    return _ordinal(newer) - _ordinal(older)


def accepted(release: str) -> int:
    """Return how many releases back the state may be that a release reads: two, and three from 24.11 on."""
    return 3 if _ordinal(release) >= _ordinal("24.11") else 2


def _ordinal(release: str) -> int:
    if release in _FIRST:
        return _FIRST.index(release)
    match = re.fullmatch(r"(\d\d)\.(05|11)", release)
    if not match or int(match[1]) < 24:
        raise Refused(f"{release!r} is no release of Slurm that is known here.")
    return len(_FIRST) + 2 * (int(match[1]) - 24) + (match[2] == "11")


def dumps_in(folder: str, cluster: str = "") -> list[str]:
    """Return the paths of complete dumps, oldest first."""
    dumps = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        match = _DUMP.fullmatch(name)
        path = os.path.join(folder, name)
        if match and (not cluster or match["cluster"] == cluster) and os.path.isfile(os.path.join(path, MANIFEST)):
            dumps.append((match["time"], path))
    return [path for _time, path in sorted(dumps)]


def read_manifest(dump: str) -> Mapping[str, Any]:
    """Return the manifest of a dump.

    :raises Refused: there is none that can be used.
    """
    path = os.path.join(dump, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError) as error:
        raise Refused(f"{dump} is no dump: {error}.") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise Refused(f"{path} has another form than this version reads (schema {SCHEMA}).")
    return manifest


def check_files(dump: str, manifest: Mapping[str, Any]) -> None:
    """Compare the files with the manifest.

    :raises Refused: one is damaged.
    """
    for name, entry in manifest["files"].items():
        path = os.path.join(dump, name)
        if not os.path.isfile(path) or digest(path) != entry["sha256"]:
            raise Refused(f"{path} is damaged: it is not the file that the manifest describes. Take another dump.")


def digest(path: str) -> str:
    """Return the sha256 of a file."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def has_jobs(state: str, run: Run) -> bool:
    """Whether the StateSaveLocation, or the slurmctld that runs on it, knows of a job."""
    shown = run(["squeue", "--noheader", "--states=all", "--format=%i"])
    if shown.rc == 0 and shown.stdout.strip():
        return True
    # 22.05.8 writes 43 bytes where there is no job, and 890 where there is one with a short name.
    for name in ("job_state", "job_state.old"):
        path = os.path.join(state, name)
        if os.path.isfile(path) and os.path.getsize(path) > 400:
            return True
    return any(_job_folders(state))


def _job_folders(state: str) -> Sequence[str]:
    buckets = [name for name in (os.listdir(state) if os.path.isdir(state) else ()) if name.startswith("hash.")]
    return [entry for name in buckets for entry in os.listdir(os.path.join(state, name)) if entry.startswith("job.")]
