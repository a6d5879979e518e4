# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Makes one bundle on this machine: on demand, or before a restart or a replacement destroys the evidence."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from ..forms import boolean, instance_of, integer, or_empty, string
from ..health import record
from ..health.check import REBOOT, REPLACE, RESET_GPU, TIERS
from ..job.azcopy.output import BlobError
from ..job.azcopy.work import keep
from ..job.checkpoint.store import StoreOptions, open_store
from ..machine.atomic import write_file
from ..machine.config import FOLDER, ConfigError, read_checked
from ..machine.kernel import read_boot_id
from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..slurm import slurmd_env
from . import catalog
from .archive import FOLDERS, Bundle, keep_newest, make_bundle, write_bundle
from .collect import TOTAL_S, Collector, ReadCommand
from .pseudonyms import HOST, Pseudonyms, users_of_this_machine
from .reading import read_command

LOCK = "/run/hpcai/diag.lock"
UNIT = "hpcai-diag.service"
CONFIG = "diag"
FILE = f"{FOLDER}/{CONFIG}.json"
CAPTURED = "/run/hpcai/diag/captured.json"
"""For which faults bundles were made in this boot."""


@dataclass(frozen=True)
class Options:
    """What to collect.

    :ivar extra: names of items that are only read on request.
    :ivar limit_s: time limit of all items together.
    :ivar salt: replace names, with this salt; None keeps the names, an empty text uses a random salt.
    """

    extra: frozenset[str] = frozenset()
    limit_s: float = TOTAL_S
    salt: str | None = None


@dataclass(frozen=True)
class NamedBundle:
    """A bundle, and the names behind its pseudonyms."""

    bundle: Bundle
    names: dict[str, str] = field(default_factory=dict)


def is_controller(root: Root) -> bool:
    """Whether this machine runs slurmctld: only there slurm.conf is a file below /etc, nodes fetch theirs."""
    return root.exists("/etc/slurm/slurm.conf") and root.exists("/usr/sbin/slurmctld")


def make(
    root: Root,
    options: Options,
    report: Callable[[str, int, int], None] = lambda _name, _number, _of: None,
    run_command: ReadCommand = read_command,
) -> NamedBundle:
    """Collect the items, and return the bundle, which is not written yet. Runs at the lowest priority.

    :raises CommandFailed: another collection is running on this machine.
    """
    began, now = time.monotonic(), time.time()
    if root.is_this_machine:
        with contextlib.suppress(OSError):
            os.nice(19)
    pseudonyms = None
    own = _own_name(root)
    if options.salt is not None:
        pseudonyms = Pseudonyms(options.salt or secrets.token_hex(16))
        pseudonyms.learn(users_of_this_machine() if root.is_this_machine else (), (own, socket.gethostname()))
    collector = Collector(root, options.limit_s, pseudonyms, run_command)
    with _alone(root):
        entries = collector.collect(catalog.select(is_controller(root), options.extra), report)
    node = pseudonyms.of(HOST, own) if pseudonyms else own
    bundle = make_bundle(node, entries, now, pseudonyms is not None, time.monotonic() - began)
    return NamedBundle(bundle, pseudonyms.names if pseudonyms else {})


def _own_name(root: Root) -> str:
    with contextlib.suppress(ConfigError):
        env = slurmd_env.read(root)
        if env:
            return env.node_name
    return (root.text("/etc/hostname") or "").partition(".")[0] or "machine"


@contextlib.contextmanager
def _alone(root: Root) -> Iterator[None]:
    """Prevent two collections at the same time, which would double the load. A full /run prevents no collection."""
    held = contextlib.ExitStack()
    try:
        held.enter_context(only_one(root.at(LOCK), 0))
    except Locked as error:
        raise CommandFailed(f"another collection is running: {error}") from None
    except OSError:
        pass
    with held:
        yield


@dataclass(frozen=True)
class CaptureSettings:
    """The content of /etc/hpcai/diag.json, which the role health_checks writes.

    :ivar on_fault: whether to make a bundle when a check fails for which the node is restarted or replaced.
    :ivar keep: how many bundles to keep on the node.
    :ivar upload: URL of a container, or of a folder in it, to which bundles are copied; empty for none.
    :ivar pseudonyms: whether to replace names in these bundles.
    """

    on_fault: bool = False
    keep: int = 5
    upload: str = ""
    pseudonyms: bool = False


FORM = instance_of(
    CaptureSettings,
    {"on_fault": boolean, "keep": integer(1, 100), "upload": or_empty(string), "pseudonyms": boolean},
    null_is_absent=True,
)


def read_settings(root: Root) -> CaptureSettings:
    """Return the settings; the defaults if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, FORM) or CaptureSettings()


def destructive_faults(root: Root) -> tuple[str, ...]:
    """Return the failed checks whose repair destroys evidence: a GPU's reset, a restart, another machine."""
    found = set()
    for tier in TIERS:
        for check in (record.read(root, tier) or {}).get("checks", ()):
            if check["verdict"] == "fail" and check["action"] in (RESET_GPU, REBOOT, REPLACE):
                found.add(str(check["name"]))
    return tuple(sorted(found))


def is_due(root: Root) -> bool:
    """Whether a bundle has to be made: it is wanted, and there is a fault that no bundle of this boot covers.

    :raises ConfigError: the settings are invalid.
    """
    if not read_settings(root).on_fault:
        return False
    faults = set(destructive_faults(root))
    return bool(faults - set(_captured(root)))


def _captured(root: Root) -> Sequence[str]:
    try:
        held = json.loads(root.text(CAPTURED) or "{}")
        return [str(name) for name in held["faults"]] if held["boot_id"] == read_boot_id(root) else []
    except (ValueError, LookupError, TypeError):
        return []


def start_if_due(root: Root, run: Run) -> str:
    """Start the unit that makes the bundle, if one is due, and return what was done. Never waits for it."""
    try:
        if not is_due(root):
            return ""
    except ConfigError as error:
        return f"no diagnostics were collected: {error}"
    answer = run(["systemctl", "start", "--no-block", UNIT])
    return "collecting diagnostics" if answer.rc == 0 else f"cannot start {UNIT}: {answer.stderr.strip()}"


@dataclass(frozen=True)
class Captured:
    """The result of a capture.

    :ivar uploaded: whether the bundle is in Blob storage.
    :ivar problem: why it is not, or what else went wrong; empty if nothing did.
    """

    path: str
    faults: tuple[str, ...]
    uploaded: bool = False
    problem: str = ""
    removed: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def capture(root: Root, limit_s: float, upload: Callable[[Root, str, str], None] | None = None) -> Captured:
    """Make a bundle for the current faults, keep it on this machine, and copy it to Blob storage if wanted.

    :param upload: copies a file to a URL.
    :raises ConfigError: the settings are invalid.
    :raises CommandFailed: another collection is running.
    :raises OSError: the bundle cannot be written.
    """
    settings = read_settings(root)
    faults = destructive_faults(root)
    made = make(root, Options(limit_s=limit_s, salt="" if settings.pseudonyms else None))
    path = write_bundle(root, made.bundle)
    # A fault that heals and comes back makes no second bundle, so earlier faults of this boot stay.
    covered = sorted({*faults, *_captured(root)})
    text = json.dumps({"boot_id": read_boot_id(root), "faults": covered, "path": path}) + "\n"
    write_file(root.at(CAPTURED), text, mode=0o600)
    removed = [name for folder in FOLDERS for name in keep_newest(root, folder, settings.keep, path)]
    if not settings.upload:
        return Captured(path, faults, removed=tuple(removed))
    try:
        (upload or upload_file)(root, root.at(path), settings.upload)
    except (CommandFailed, ConfigError, BlobError, OSError, ValueError) as error:
        return Captured(path, faults, False, f"not copied to {settings.upload}: {error}", tuple(removed))
    return Captured(path, faults, True, "", tuple(removed))


def upload_file(root: Root, path: str, url: str) -> None:
    """Copy a file to Blob storage with azcopy and the settings of the role blob_staging.

    :raises CommandFailed: it was not copied.
    :raises ConfigError: the settings or the credentials are invalid.
    :raises ValueError: the URL is invalid.
    """
    store, folder = open_store(root, url, StoreOptions(), nodes=1)
    source, name = os.path.split(path)
    try:
        store.put(source, [name], "")
    except BaseException:
        keep(folder)
        raise
    shutil.rmtree(folder, ignore_errors=True)
