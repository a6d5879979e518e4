# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state that a controller must not lose: the queue and the accounting. Where it is, and the form of a dump.

A dump is a folder, named by cluster and time, with a manifest, the database as SQL, and slurmctld's StateSaveLocation
as a tar archive. A host that has only one of the two dumps that one.
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


class Refused(RuntimeError):
    """The action would lose data, or cannot work; the message says what to do."""


@dataclass(frozen=True)
class StatePaths:
    """Where a host's state is.

    :ivar cluster: the cluster's name in Slurm.
    :ivar state: slurmctld's StateSaveLocation; empty on a host without slurmctld.
    :ivar database: name of slurmdbd's database; empty on a host without slurmdbd.
    :ivar path: folder for the dumps; empty to make none.
    :ivar keep: how many dumps to keep.
    """

    cluster: str
    state: str
    database: str
    path: str = ""
    keep: int = 7

    @property
    def files(self) -> tuple[str, ...]:
        """The files of a dump of this host."""
        return tuple(name for name, place in ((STATE, self.state), (DATABASE, self.database)) if place)


_FORM = instance_of(
    StatePaths,
    {"cluster": string, "state": string, "database": string, "path": string, "keep": number(integral=True)},
)


def read_place(root: Root) -> StatePaths | None:
    """Return the settings that the role wrote; None if there are none.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, _FORM)


def release_of(program: str, run: Run) -> str:
    """Return the release of an installed daemon, e.g. ``22.05``; empty if it is not installed."""
    match = _VERSION.search(run([program, "-V"]).stdout)
    return match[1] if match else ""


def installed_release(place: StatePaths, run: Run) -> str:
    """Return the release of the installed Slurm; empty if there is none."""
    return next(filter(None, (release_of(name, run) for name in ("slurmctld", "slurmdbd"))), "")


def dumps_in(folder: str, cluster: str = "", files: Sequence[str] = ()) -> list[str]:
    """Return the paths of complete dumps, oldest first.

    :param files: leave out dumps that contain none of these files, because another host made them.
    """
    dumps = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        match = _DUMP.fullmatch(name)
        path = os.path.join(folder, name)
        if match and (not cluster or match["cluster"] == cluster) and os.path.isfile(os.path.join(path, MANIFEST)):
            dumps.append((match["time"], path))
    return [path for _time, path in sorted(dumps) if not files or _has_any(path, files)]


def _has_any(dump: str, files: Sequence[str]) -> bool:
    try:
        return not set(read_manifest(dump)["files"]).isdisjoint(files)
    except (Refused, LookupError, TypeError):
        # Not left out: whoever uses it reports the problem.
        return True


def read_manifest(dump: str) -> Mapping[str, Any]:
    """Return the manifest of a dump.

    :raises Refused: there is no valid manifest.
    """
    path = os.path.join(dump, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError) as error:
        raise Refused(f"{dump} is not a dump: {error}.") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise Refused(f"{path} has another schema than this version reads (schema {SCHEMA}).")
    return manifest


def check_files(dump: str, manifest: Mapping[str, Any]) -> None:
    """Compare the files with the manifest.

    :raises Refused: a file is damaged.
    """
    for name, entry in manifest["files"].items():
        path = os.path.join(dump, name)
        if not os.path.isfile(path) or digest(path) != entry["sha256"]:
            raise Refused(f"{path} is damaged: it does not match the manifest. Use another dump.")


def digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def has_jobs(state: str, run: Run) -> bool:
    """Whether the StateSaveLocation, or the slurmctld that uses it, has a job."""
    shown = run(["squeue", "--noheader", "--states=all", "--format=%i"])
    if shown.rc == 0 and shown.stdout.strip():
        return True
    # 22.05.8 writes 43 bytes without jobs, and 890 bytes with one job that has a short name.
    for name in ("job_state", "job_state.old"):
        path = os.path.join(state, name)
        if os.path.isfile(path) and os.path.getsize(path) > 400:
            return True
    return any(_job_folders(state))


def _job_folders(state: str) -> Sequence[str]:
    buckets = [name for name in (os.listdir(state) if os.path.isdir(state) else ()) if name.startswith("hash.")]
    return [entry for name in buckets for entry in os.listdir(os.path.join(state, name)) if entry.startswith("job.")]
