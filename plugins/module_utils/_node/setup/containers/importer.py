# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""An importer for pyxis that keeps images, so that a job need not download what an earlier job downloaded.

pyxis calls it as the job's user: ``get URI`` prints the path of a squashfs file; ``release`` says that the step no
longer needs it, and may be called twice. Each user has a separate folder, because images may be private. Images are
stored by the digest from the registry, so a tag that now refers to another image is downloaded again. Only one process
at a time downloads an image. Above the size limit, the least recently used images are removed; images in use stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.run import CommandFailed, Run, last_line

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_STEP = re.compile(r"[0-9]+")
SQUASH_OPTIONS = "-comp zstd -Xcompression-level 3 -b 1M"
"""Compresses better than enroot's options for throw-away images, because these images are read many times."""
IMPORT_LIMIT_S = 6 * 3600.0


@dataclass(frozen=True)
class Cache:
    """A user's images.

    :ivar folder: where the images are.
    :ivar uses: folder with one file for each step that uses an image; empty after a boot.
    :ivar limit: maximum size of all images together, in bytes.
    """

    folder: str
    uses: str
    limit: int


def cache_of(base: str, limit_gib: float, uid: int, runtime: str = "/run/enroot") -> Cache:
    """Return the cache of a user."""
    return Cache(f"{base}/user-{uid}", f"{runtime}/user-{uid}/images", int(limit_gib * (1 << 30)))


def get(uri: str, cache: Cache, step: str, run: Run) -> str:
    """Return the path of the image; download it if it is not in the cache.

    :param step: ``<job>.<step>``.
    :raises CommandFailed: enroot cannot download it.
    :raises OSError: there is no space, or the folder does not belong to the user.
    """
    for folder in (cache.folder, cache.uses):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _refuse_strangers(folder)
    digest = _digest(uri, run)
    path = f"{cache.folder}/{digest}.sqsh"
    # Mark it as used before looking for it: from now on no other process removes it.
    _mark(cache, step, digest)
    with _locked(f"{cache.folder}/.{digest}.lock"):
        if os.path.exists(path):
            os.utime(path)
        else:
            _fetch(uri, digest, path, f"{cache.folder}/.{step}.{digest}.part", run)
    evict(cache)
    return path


def release(cache: Cache, step: str) -> None:
    """Note that the step no longer needs its image, and remove an incomplete download of it; may be called again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{cache.uses}/{step}")
    for name in _names(cache.folder):
        if name.startswith(f".{step}.") and name.endswith(".part"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{cache.folder}/{name}")


def evict(cache: Cache) -> list[str]:
    """Remove unused images, least recently used first, until the rest is within the limit; return the removed ones."""
    removed = []
    with _locked(f"{cache.folder}/.evict.lock"):
        used = {_read(f"{cache.uses}/{name}") for name in _names(cache.uses)}
        images = []
        for name in _names(cache.folder):
            if name.endswith(".sqsh") and not name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(f"{cache.folder}/{name}")
                    images.append((found.st_mtime_ns, found.st_size, name))
        total = sum(size for _age, size, _name in images)
        for _age, size, name in sorted(images):
            if total <= cache.limit:
                break
            if name[: -len(".sqsh")] not in used:
                os.unlink(f"{cache.folder}/{name}")
                removed.append(name)
                total -= size
    return removed


def step_of(environment: Mapping[str, Any]) -> str:
    """Return ``<job>.<step>`` of the step that this process runs in.

    :raises CommandFailed: it does not run in a step.
    """
    job, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID", "")
    if not _STEP.fullmatch(job) or not _STEP.fullmatch(step):
        raise CommandFailed("SLURM_JOB_ID and SLURM_STEP_ID are not set. Only pyxis may call the importer, in a step.")
    return f"{job}.{step}"


def _digest(uri: str, run: Run) -> str:
    named = uri.rpartition("@")[2]
    if _DIGEST.fullmatch(named):
        return named
    answer = run(["enroot", "digest", uri])
    found = answer.stdout.strip()
    if answer.rc != 0 or not _DIGEST.fullmatch(found):
        raise CommandFailed(f"the registry returned no digest of {uri}; enroot digest failed with: {last_line(answer)}")
    return found


def _fetch(uri: str, digest: str, path: str, temporary: str, run: Run) -> None:
    pinned = uri if uri.endswith(f"@{digest}") else f"{uri}@{digest}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    options = f"ENROOT_SQUASH_OPTIONS={SQUASH_OPTIONS}"
    answer = run(["env", options, "enroot", "import", "--output", temporary, pinned])
    if answer.rc != 0 or not os.path.exists(temporary):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise CommandFailed(f"{uri} cannot be imported; enroot import failed with: {last_line(answer)}")
    os.replace(temporary, path)


def _mark(cache: Cache, step: str, digest: str) -> None:
    temporary = f"{cache.uses}/.{step}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(digest)
    # Under the lock, so that an eviction sees the complete file.
    with _locked(f"{cache.folder}/.evict.lock"):
        os.replace(temporary, f"{cache.uses}/{step}")


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _refuse_strangers(folder: str) -> None:
    found = os.lstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or found.st_mode & 0o170000 == 0o120000:
        raise CommandFailed(f"{folder} does not belong to this user, or other users can read it. Remove it.")


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
