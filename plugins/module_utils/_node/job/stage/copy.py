# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One copy between a container and a folder on this machine, for the module blob_copy."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.user_folders import Base, FolderProblem, is_open, walk
from ..azcopy.credential import Credential
from ..azcopy.location import BlobLocation, parse_location
from ..azcopy.options import Limits
from ..azcopy.output import Blob
from ..azcopy.tool import Azcopy
from ..azcopy.transfer import list_blobs, upload
from ..hashes import md5_of
from .apply import need_of, stage
from .listing import Listing
from .options import STATE, StageOptions, paths_of, selected
from .plan import groups_of, matching
from .receive import files_below


@dataclass(frozen=True)
class CopyOptions:
    """What to copy.

    :ivar source: a URL or a folder; exactly one of source and dest is a URL.
    :ivar dest: a folder or a URL.
    :ivar pattern: of file names; empty for all.
    :ivar full: compare the content of existing files, not only their size.
    :ivar work: the folder for azcopy's logs and plans.
    """

    source: str
    dest: str
    pattern: str
    decompress: bool
    full: bool
    credential: Credential
    limits: Limits
    azcopy: str
    work: str


@dataclass(frozen=True)
class Copied:
    """What was copied, or would be.

    :ivar names: relative to source and destination.
    :ivar same: how many are already there, unchanged.
    :ivar size: the stored size of the files to copy in bytes.
    :ivar problem: the error; empty if there is none.
    """

    names: tuple[str, ...]
    same: int
    size: int
    problem: str = ""


def is_url(text: str) -> bool:
    """Whether this is the URL of a container, and not a folder."""
    return text.startswith(("https://", "http://"))


def copy(options: CopyOptions, apply: bool) -> Copied:
    """Copy the files that the destination lacks.

    :param apply: False to only return what would be copied.
    :raises ValueError: the options are invalid.
    :raises BlobError: the container cannot be listed, or azcopy cannot be started.
    :raises OSError: a folder cannot be read or created.
    """
    if is_url(options.source) is is_url(options.dest):
        raise ValueError("one of source and dest must be the URL of a container, the other one a folder.")
    if options.decompress and not is_url(options.source):
        raise ValueError("decompress requires a container as source.")
    location = parse_location(options.source if is_url(options.source) else options.dest)
    folder = tempfile.mkdtemp(prefix="hpcai-blob-", dir=options.work if os.path.isdir(options.work) else None)
    tool = Azcopy(folder, options.credential, options.limits, options.azcopy)
    try:
        done = _down(options, location, tool, apply) if is_url(options.source) else _up(options, location, tool, apply)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if not done.problem:
        shutil.rmtree(folder, ignore_errors=True)
    return done


def refuse_user_writable(dest: str, paths: Iterable[str] = (), make: bool = True) -> None:
    """As root, refuse a folder in which users could replace a folder by a link while files are moved to their names.

    :param paths: of the files, relative to the folder; the existing folders on the way to them are checked as well.
    :param make: create the folder if it is missing.
    :raises ValueError: users can write to one of the folders.
    :raises OSError: a folder cannot be created or opened.
    """
    if os.geteuid() != 0:
        return
    folders = {os.path.dirname(path) for path in paths}
    try:
        with _closed(dest, "copy files there", 0o755 if make else None) as base:
            for folder in sorted(folders):
                _check_parts(base, folder)
    except FileNotFoundError:
        # walk() has checked the parts that exist.
        if make:
            raise


def refuse_users_files(source: str, pattern: str) -> None:
    """As root, refuse to upload what users could have put into a folder: a link there may lead to any file of root.

    :param pattern: of file names; empty for all.
    :raises ValueError: users can write to the folder or one below it, or a file is a link or a special file.
    :raises OSError: a folder is missing, or cannot be read.
    """
    if os.geteuid() != 0:
        return
    groups = groups_of(pattern) if pattern else []
    with _closed(source, "upload files from there") as base:
        for parent, _folders, files, handle in os.fwalk(".", onerror=_raise, dir_fd=base.handle):
            here = os.path.normpath(os.path.join(source, parent))
            if is_open(os.fstat(handle)):
                raise FolderProblem(f"users can write to {here}")
            for name in matching(files, groups) if groups else files:
                if not stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    raise FolderProblem(f"{here}/{name} is a symbolic link or a special file")


def _raise(error: OSError) -> None:
    raise error


@contextlib.contextmanager
def _closed(path: str, action: str, make_mode: int | None = None) -> Iterator[Base]:
    """Open a folder that users can neither write to nor replace. A FolderProblem in this context becomes a ValueError.

    :param action: what root does not do otherwise.
    """
    try:
        with walk(Root(), path, make_mode):
            pass
        # walk() follows links of the operator, which may lead to a place where users can replace folders.
        with walk(Root(), os.path.realpath(path)) as folder:
            if is_open(os.fstat(folder.handle)):
                raise FolderProblem(f"users can write to {path}")
            yield folder
    except FolderProblem as error:
        raise ValueError(f"{error}, so root does not {action}: set become_user to the owner of the files.") from None


def _check_parts(base: Base, path: str) -> None:
    """Check the existing folders of a path below a folder.

    :raises FolderProblem: users can write to one, or it is a link or a file.
    """
    with contextlib.ExitStack() as entered:
        here = base
        for name in filter(None, path.split("/")):
            try:
                here = entered.enter_context(here.enter(name))
            except FileNotFoundError:
                return
            except OSError as error:
                raise FolderProblem(f"{here.path}/{name} cannot be opened as a folder ({error.strerror})") from None
            if is_open(os.fstat(here.handle)):
                raise FolderProblem(f"users can write to {here.path}")


def _down(options: CopyOptions, location: BlobLocation, tool: Azcopy, apply: bool) -> Copied:
    ask = StageOptions(
        location, os.path.abspath(options.dest), 0, 1, False, options.pattern, options.decompress, options.full
    )
    listing = Listing(location.address, "", tuple(list_blobs(tool, location)))
    # Before need_of(), which opens manifests and files: users' links and pipes must not be opened either.
    paths = [*paths_of(selected(listing.blobs, ask.pattern), ask.decompress).values(), f"{STATE}/manifest"]
    refuse_user_writable(ask.target, paths, make=False)
    need = need_of(ask, listing)
    size = sum(need.blobs[name].size for name in need.missing)
    names, same = tuple(need.missing), len(need.known)
    if not apply or not names:
        return Copied(names, same, size)
    refuse_user_writable(ask.target)
    done = stage(ask, tool, listing)
    logs = f"; azcopy's logs are in {done.logs}" if done.logs else ""
    return Copied(names, same, size, f"{done.problem}{logs}" if done.problem else "")


def _up(options: CopyOptions, location: BlobLocation, tool: Azcopy, apply: bool) -> Copied:
    source = os.path.abspath(options.source)
    refuse_users_files(source, options.pattern)
    found = missing_in(source, options.pattern, list_blobs(tool, location))
    if not apply or not found.names:
        return Copied(found.names, found.same, found.size)
    # Root has only regular files to upload here. Users may upload what their links lead to, with their own rights.
    is_root = os.geteuid() == 0
    source = os.path.realpath(source) if is_root else source
    done = upload(tool, source, found.names, location, follow_links=not is_root)
    problem = "" if done.done else f"{done.sentence()}; azcopy's logs are in {tool.folder}"
    return Copied(found.names, found.same, found.size, problem)


@dataclass(frozen=True)
class Missing:
    """The files that a container lacks.

    :ivar names: of files to upload, relative to the folder.
    :ivar same: how many are already there, unchanged.
    :ivar size: bytes of the files to upload.
    """

    names: tuple[str, ...]
    same: int
    size: int


def missing_in(folder: str, pattern: str, blobs: Sequence[Blob]) -> Missing:
    """Return the files of a folder that a container lacks.

    The content of blobs without an MD5 is unknown, so they count as different.

    :raises FileNotFoundError: the folder does not exist.
    """
    stored: Mapping[str, Blob] = {blob.name: blob for blob in blobs}
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "no such folder", folder)
    names = sorted(name for name in files_below(folder) if STATE not in name.split("/")[:-1])
    chosen = matching(names, groups_of(pattern)) if pattern else names
    lacking, size = [], 0
    for name in chosen:
        path = os.path.join(folder, name)
        found, length = stored.get(name), os.path.getsize(path)
        if found is None or found.size != length or found.md5 != md5_of(path):
            lacking.append(name)
            size += length
    return Missing(tuple(lacking), len(chosen) - len(lacking), size)
