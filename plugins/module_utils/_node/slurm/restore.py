# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Restore a dump on a controller that has lost its own state."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pwd
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..machine.atomic import write_file
from ..machine.root import Root
from ..machine.run import CommandFailed, Run, must, wait_until
from ..machine.unit_state import read_unit
from .database import count_rows
from .dump import DATABASE_LIMIT_S
from .releases import UnknownRelease, accepted, releases_apart
from .state import (
    DATABASE,
    STATE,
    Refused,
    StatePaths,
    check_files,
    dumps_in,
    has_jobs,
    installed_release,
    read_manifest,
)

RECORD = "/var/lib/hpcai/slurm_restored.json"
_ANSWER_S = 900
"""How long to wait until the daemons answer. A newer slurmdbd or slurmctld first converts its tables or its state."""


@dataclass(frozen=True)
class CurrentState:
    """The host's state before the restore.

    :ivar release: the installed release of Slurm.
    :ivar has_jobs: slurmctld's state has jobs.
    :ivar rows: how many jobs the database has; None without its tables.
    """

    release: str
    has_jobs: bool
    rows: int | None


def choose(source: str, place: StatePaths) -> str:
    """Return the dump: the folder itself, or the newest dump of the cluster in it that has something for this host.

    :raises Refused: there is none.
    """
    if os.path.isfile(os.path.join(source, "manifest.json")):
        return os.path.realpath(source)
    dumps = dumps_in(source, place.cluster, place.files) or dumps_in(source, place.cluster)
    if not dumps:
        raise Refused(
            f"{source} is not a dump, and contains none of the cluster {place.cluster}. Use a folder that does."
        )
    return os.path.realpath(dumps[-1])


def is_done(source: str, root: Root) -> bool:
    """Whether this machine was restored from here before; later dumps in that folder are its own."""
    try:
        done = str(json.loads(root.text(RECORD) or "{}").get("dump", ""))
    except ValueError:
        return False
    asked = os.path.realpath(source)
    return bool(done) and asked in (done, os.path.dirname(done))


def read_current_state(place: StatePaths, run: Run) -> CurrentState:
    """Read the current state.

    :raises CommandFailed: the database server does not answer.
    """
    return CurrentState(
        installed_release(place, run),
        bool(place.state) and has_jobs(place.state, run),
        count_rows(place.database, place.cluster, run) if place.database else None,
    )


def check(manifest: Mapping[str, Any], place: StatePaths, current: CurrentState, force: bool) -> None:
    """Refuse a restore that would lose data or cannot work. Pure.

    :raises Refused: the message says what to do.
    """
    if manifest["cluster"] != place.cluster:
        raise Refused(
            f"The dump is of the cluster {manifest['cluster']}, but this one is {place.cluster}. "
            "Choose another dump, or set slurm_cluster_name."
        )
    if not current.release:
        raise Refused("Slurm is not installed here. Install slurmctld or slurmdbd first.")
    try:
        apart = releases_apart(manifest["slurm"], current.release)
    except UnknownRelease as error:
        raise Refused(str(error)) from error
    if apart < 0:
        raise Refused(
            f"The dump is of Slurm {manifest['slurm']}, but {current.release} is installed, which cannot read "
            f"files of newer releases. Install Slurm {manifest['slurm']}."
        )
    if apart > accepted(current.release):
        raise Refused(
            f"The dump is of Slurm {manifest['slurm']}, but {current.release} can only read files of the "
            f"{accepted(current.release)} releases before it. Restore with a release in between, and upgrade then."
        )
    lacking = [name for name in place.files if name not in manifest["files"]]
    if len(lacking) == len(place.files):
        raise Refused(f"The dump contains nothing for this host: it lacks {', '.join(lacking)}.")
    if force:
        return
    if current.has_jobs and STATE in manifest["files"]:
        raise Refused(f"{place.state} has jobs, which would be lost. To accept that, set force.")
    if current.rows and DATABASE in manifest["files"]:
        raise Refused(
            f"The database {place.database} has {current.rows} jobs of {place.cluster}, which would be lost. "
            "To accept that, set force."
        )


def apply(
    dump: str, manifest: Mapping[str, Any], place: StatePaths, root: Root, run: Run, start: bool
) -> tuple[str, ...]:
    """Restore the dump: stop the daemons, put state and database in place, start the daemons.

    :param start: whether to start them; if not, they stay stopped for a run that configures them afterwards.
    :return: the paths to which the replaced state was moved.
    :raises CommandFailed: a step failed; then the daemons are stopped, and the restore can be repeated with force.
    :raises Refused: a file is damaged; nothing was done.
    """
    check_files(dump, manifest)
    for service in ("slurmctld", "slurmdbd"):
        if read_unit(service, run).load == "loaded":
            must(run(["systemctl", "stop", service]))
    aside: list[str] = []
    if place.database and DATABASE in manifest["files"]:
        _load(os.path.join(dump, DATABASE), place.database, run)
    if place.state and STATE in manifest["files"]:
        aside += _unpack(os.path.join(dump, STATE), place.state)
    write_file(root.at(RECORD), json.dumps({"schema": 1, "dump": dump}) + "\n")
    if start:
        _start(place, run)
    return tuple(aside)


def _load(path: str, name: str, run: Run) -> None:
    client = ["mariadb", "--batch"]
    must(run([*client, f"--execute=DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}`"]))
    patient = functools.partial(run, timeout_s=DATABASE_LIMIT_S)  # type: ignore[call-arg]
    must(patient([*client, f"--database={name}", f"--execute=source {path}"]))


def _unpack(path: str, state: str) -> list[str]:
    """Replace the folder with the archive; the old folder is kept next to it."""
    fresh, old = f"{state}.restoring", _unused_name(state)
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh, mode=0o700)
    with tarfile.open(path) as archive:
        for member in archive:
            parts = member.name.split("/")
            if member.name.startswith("/") or ".." in parts or not (member.isfile() or member.isdir()):
                raise Refused(f"{path} has {member.name!r}, which is not a file of slurmctld.")
            # Extracted by name only, without owners: these are set below, with this machine's ids.
            target = os.path.join(fresh, *parts)
            if member.isdir():
                os.makedirs(target, mode=0o700, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            content = archive.extractfile(member)
            if content is None:
                raise Refused(f"{path}: {member.name} cannot be read.")
            with open(target, "xb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
                shutil.copyfileobj(content, file)
            os.chmod(target, member.mode & 0o700)
    _give_to_slurm(fresh)
    replaced = os.path.isdir(state)
    if replaced:
        os.rename(state, old)
    os.rename(fresh, state)
    return [old] if replaced else []


def _unused_name(state: str) -> str:
    """Return a name next to the folder. The folder of an earlier restore stays, because it may be the only copy of jobs
    that are in no dump: that restore may have failed, or have used the wrong dump."""
    names = itertools.chain([state], (f"{state}-{number}" for number in itertools.count(2)))
    return next(f"{name}.before-restore" for name in names if not os.path.lexists(f"{name}.before-restore"))


def _give_to_slurm(folder: str) -> None:
    try:
        account = pwd.getpwnam("slurm")
    except KeyError as error:
        raise CommandFailed("there is no user slurm on this machine. Install Slurm first") from error
    for path in _all(folder):
        os.chown(path, account.pw_uid, account.pw_gid)


def _all(folder: str) -> Iterable[str]:
    yield folder
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield os.path.join(parent, name)


def _start(place: StatePaths, run: Run) -> None:
    """Start slurmdbd before slurmctld, and wait for each until it answers."""
    for service, needed, question in (
        ("slurmdbd", place.database, ["sacctmgr", "--noheader", "show", "cluster"]),
        ("slurmctld", place.state, ["scontrol", "ping"]),
    ):
        if not needed:
            continue
        must(run(["systemctl", "start", service]))
        if not wait_until(functools.partial(_answers, question, run), _ANSWER_S):
            raise CommandFailed(f"{service} does not answer after the restore. See 'journalctl -u {service}'")


def _answers(question: list[str], run: Run) -> bool:
    return run(question).rc == 0


def restore(
    source: str, place: StatePaths, root: Root, run: Run, *, force: bool, start: bool, check_only: bool = False
) -> Any:
    """Restore the dump in ``source``; return its path and the paths of the replaced state.

    :raises Refused: the restore would lose data, or cannot work.
    """
    dump = choose(source, place)
    manifest = read_manifest(dump)
    check(manifest, place, read_current_state(place, run), force)
    return dump, (() if check_only else apply(dump, manifest, place, root, run, start))
