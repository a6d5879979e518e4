# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The pyxis plugin, built for the exact version of the installed Slurm, and rebuilt only if that version changes.

slurmd and srun load only plugins of their own version. So each build has a folder with both versions in its name, a
link points to the current one, and a record lists what it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ...machine.atomic import make_folders, remove_file, write_file
from ...machine.root import Root
from ...machine.run import Run
from .enroot import link_change

HEADER = "slurm/slurm_version.h"
PREFIX = "/usr"
"""Default prefix of the Slurm installation."""
_HEADER_NUMBER = re.compile(r"#define\s+SLURM_VERSION_NUMBER\s+(0x[0-9a-fA-F]+)")
_VERSION = re.compile(r"\b(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class InstalledSlurm:
    """The Slurm of a machine.

    :ivar version: such as ``22.05.8``.
    :ivar package: the package's version and release; empty if Slurm is not from a package.
    """

    version: str
    package: str


def installed_slurm(run: Run, prefix: str = PREFIX) -> InstalledSlurm | None:
    """Return the Slurm that is installed below ``prefix``; None if there is none.

    The package database comes first: Slurm's clients do not print their version without a configuration, which an image
    does not have. Its daemons do.
    """
    scontrol = f"{prefix}/bin/scontrol"
    package = _package(run, scontrol)
    found = _VERSION.search(package)
    for command in ([f"{prefix}/sbin/slurmd", "-V"], [f"{prefix}/sbin/slurmctld", "-V"], [scontrol, "--version"]):
        if found:
            break
        answer = run(command)
        found = _VERSION.search(answer.stdout) if answer.rc == 0 else None
    return InstalledSlurm(found[1], package) if found else None


def _package(run: Run, scontrol: str) -> str:
    """Return version and release of the package that contains scontrol."""
    owner = run(["dpkg-query", "--search", scontrol])
    if owner.rc == 0 and ":" in owner.stdout:
        name = owner.stdout.partition(":")[0].split(",")[0]
        shown = run(["dpkg-query", "--show", "--showformat=${Version}", name])
    else:
        shown = run(["rpm", "--query", "--file", "--queryformat=%{VERSION}-%{RELEASE}", scontrol])
    return shown.stdout.strip() if shown.rc == 0 else ""


def headers_version(root: Root, include: str) -> str | None:
    """Return the version of the Slurm headers below ``include``; None if there are none."""
    found = _HEADER_NUMBER.search(root.text(f"{include}/{HEADER}") or "")
    if not found:
        return None
    number = int(found[1], 16)
    return f"{number >> 16 & 0xFF}.{number >> 8 & 0xFF:02d}.{number & 0xFF}"


RECORD = "/var/lib/hpcai/pyxis.json"
FOLDER = "/usr/lib/hpcai/pyxis"
NAME = "spank_pyxis.so"
LINK = f"{FOLDER}/{NAME}"
"""The path in plugstack.conf."""
SCHEMA = 1


@dataclass(frozen=True)
class BuildRecord:
    """What a plugin was made from, as in the record.

    :ivar slurm: Slurm's version.
    :ivar slurm_package: version and release of its package.
    :ivar pyxis: pyxis' version.
    :ivar source_sha256: digest of its source archive.
    :ivar prefix: prefix of that Slurm.
    :ivar plugin_sha256: digest of the plugin; empty before it is built.
    """

    slurm: str
    slurm_package: str
    pyxis: str
    source_sha256: str
    prefix: str = PREFIX
    plugin_sha256: str = ""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"{self.slurm}-{self.pyxis}"


@dataclass(frozen=True)
class BuildPlan:
    """What has to be done.

    :ivar target: what the plugin has to be made from.
    :ivar reason: why it is built; empty if it is up to date.
    :ivar before: what the current one was made from; None if there is none.
    """

    target: BuildRecord
    reason: str
    before: BuildRecord | None


def plan_build(source: str, sha256: str, version: str, root: Root, run: Run, prefix: str = PREFIX) -> BuildPlan:
    """Return what has to be done. Without a source archive on this machine, the recorded one counts as the wanted one.

    :param source: path of the source archive.
    :param sha256: its expected digest; empty to accept the file as it is.
    :raises BuildFailed: Slurm is not installed, or there is neither the source nor a plugin made from it.
    """
    slurm = installed_slurm(run, prefix)
    if slurm is None:
        raise BuildFailed(
            f"pyxis needs an installed Slurm, and none was found: no package has {prefix}/bin/scontrol, and neither "
            f"Slurm's daemons nor scontrol in {prefix} print a version."
        )
    before = read_record(root)
    found = file_digest(root.at(source))
    if found and sha256 and found != sha256:
        raise BuildFailed(f"{source} has the SHA-256 digest {found}, not {sha256}, so it is another file. Remove it.")
    digest = sha256 or found or (before.source_sha256 if before and before.pyxis == version else "")
    if not digest:
        raise BuildFailed(f"{source} does not exist, and pyxis {version} was not built yet. Run the role's install.")
    target = BuildRecord(slurm.version, slurm.package, version, digest, prefix)
    return BuildPlan(target, _reason(target, before, root), before)


def _reason(target: BuildRecord, before: BuildRecord | None, root: Root) -> str:
    if before is None:
        return "no plugin was built yet"
    for name, words in (
        ("slurm", "it was built for Slurm"),
        ("slurm_package", "it was built for Slurm's package"),
        ("pyxis", "it was built from pyxis"),
        ("source_sha256", "its source had the digest"),
    ):
        had, has = getattr(before, name), getattr(target, name)
        if had != has:
            return f"{words} {had or 'none'}, not {has or 'none'}"
    return damage(before, root)


def damage(made: BuildRecord, root: Root) -> str:
    """Return what is wrong with the installed plugin; empty if nothing is."""
    path = root.at(LINK)
    if not os.path.islink(path) or os.readlink(path) != f"{made.folder}/{NAME}" or not os.path.exists(path):
        return f"{LINK} does not point to it"
    return "" if file_digest(path) == made.plugin_sha256 else f"{LINK} was changed after the build"


def install(plan: BuildPlan, source: str, root: Root, run: Run) -> None:
    """Build the plugin and install it. The old one stays until the new one is complete.

    :raises BuildFailed: it cannot be built; nothing was changed.
    :raises OSError: it cannot be written.
    """
    include = f"{plan.target.prefix}/include"
    headers = headers_version(root, include)
    if headers is None:
        raise BuildFailed(
            f"{include}/{HEADER} does not exist. Install libslurm-dev (slurm-devel) of {_named(plan.target)}."
        )
    if headers != plan.target.slurm:
        raise BuildFailed(
            f"the headers in {include}/slurm are of Slurm {headers}, but the installed Slurm is "
            f"{_named(plan.target)}. Install libslurm-dev (slurm-devel) of the same version."
        )
    if file_digest(root.at(source)) != plan.target.source_sha256:
        raise BuildFailed(
            f"pyxis must be rebuilt ({plan.reason}), but its source {source} is missing. Run the role's install."
        )
    folder = root.at(f"{FOLDER}/{plan.target.folder}")
    with compile_plugin(root.at(source), root.at(include), plan.target.pyxis, run) as plugin:
        make_folders(folder)
        temporary = f"{folder}/.{NAME}"
        shutil.copyfile(plugin, temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, f"{folder}/{NAME}")
    link_change(root.at(LINK), f"{plan.target.folder}/{NAME}").apply()
    made = {**asdict(plan.target), "plugin_sha256": file_digest(f"{folder}/{NAME}")}
    write_file(root.at(RECORD), json.dumps({"schema": SCHEMA, **made}, indent=2, sort_keys=True) + "\n")


def remove(root: Root, check: bool) -> list[str]:
    """Remove all plugins and their record, and return what was done, or in check mode would be done.

    :raises OSError: something cannot be removed.
    """
    found = [path for path in (FOLDER, RECORD) if root.exists(path)]
    for path in found if not check else ():
        if path == FOLDER:
            shutil.rmtree(root.at(path))
        else:
            remove_file(root.at(path))
    return [f"remove {path}" for path in found]


def _named(made: BuildRecord) -> str:
    return f"{made.slurm} ({made.slurm_package})" if made.slurm_package else made.slurm


def read_record(root: Root) -> BuildRecord | None:
    """Return what the current plugin was made from; None if there is no readable record."""
    try:
        kept: dict[str, Any] = json.loads(root.text(RECORD) or "{}")
        kept.pop("schema", None)
        made = BuildRecord(**kept)
    except (ValueError, TypeError, AttributeError):
        return None
    return made if all(isinstance(value, str) for value in asdict(made).values()) else None


def fits(root: Root, run: Run) -> str:
    """Return what is wrong with this machine's plugin; empty if it fits the installed Slurm."""
    made = read_record(root)
    if made is None:
        return f"pyxis was not built: {RECORD} does not exist"
    slurm = installed_slurm(run, made.prefix)
    if slurm is None:
        return "Slurm is not installed"
    if InstalledSlurm(made.slurm, made.slurm_package) != slurm:
        has = f"{slurm.version} ({slurm.package})"
        return f"pyxis was built for Slurm {made.slurm} ({made.slurm_package}), but Slurm {has} is installed"
    return damage(made, root)


def as_diff(plan: BuildPlan) -> dict[str, str]:
    """Return the change of the record in the form of Ansible's diff; empty if nothing is built."""
    if not plan.reason:
        return {}
    texts = ["" if made is None else json.dumps(asdict(made), indent=2) + "\n" for made in (plan.before, plan.target)]
    return {"before_header": RECORD, "after_header": RECORD, "before": texts[0], "after": texts[1]}


def file_digest(path: str) -> str | None:
    """Return the SHA-256 digest of a file; None if it does not exist."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    return digest.hexdigest()


# Building pyxis from its source archive, as the user nobody, in a temporary folder.

_NOBODY = 65534
_PARENT = "/var/tmp"
_PLUGIN = "spank_pyxis.so"
_ELF = b"\x7fELF"
_MOST_BYTES = 64 << 20
"""Maximum size of the unpacked source; pyxis has 300 KiB."""


class BuildFailed(RuntimeError):
    """The plugin cannot be built; the message says why, and what to do."""


@contextlib.contextmanager
def compile_plugin(archive: str, include: str, version: str, run: Run) -> Iterator[str]:
    """Unpack the archive, build the plugin and yield its path, valid as long as the context lasts.

    :param include: folder of Slurm's headers.
    :param version: pyxis' version, which the plugin writes to its log.
    :raises BuildFailed: the archive is invalid, or it does not compile; the message has the first error.
    """
    folder = tempfile.mkdtemp(prefix="hpcai-pyxis-", dir=_PARENT)
    try:
        source = _unpack(archive, folder)
        _give_away(folder)
        extra = [] if include == "/usr/include" else [f"CPPFLAGS=-I{include}"]
        answer = run(["env", *extra, *_as_nobody(), "make", "-C", source, _PLUGIN, f"PYXIS_VER={version}"])
        plugin = f"{source}/{_PLUGIN}"
        if answer.rc != 0:
            lines = [line for line in answer.stderr.splitlines() if line.strip()]
            message = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
            raise BuildFailed(
                f"pyxis does not compile (make: exit status {answer.rc}): {message.replace(folder, '').strip()}"
            )
        if not _is_elf(plugin):
            raise BuildFailed(f"make succeeded but made no {_PLUGIN}: {archive} is not a source archive of pyxis.")
        yield plugin
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs", "--"]


def _unpack(archive: str, folder: str) -> str:
    """Unpack only regular files and folders, all below the folder; return the folder of the Makefile."""
    try:
        with tarfile.open(archive) as tar:
            size = 0
            for member in tar:
                name = os.path.normpath(member.name)
                if name.startswith(("/", "..")):
                    raise BuildFailed(
                        f"{archive} has {member.name!r}, a path outside of it: it is not a source archive of pyxis."
                    )
                path = os.path.join(folder, name)
                if member.isdir():
                    os.makedirs(path, exist_ok=True)
                elif member.isreg():
                    size += member.size
                    if size > _MOST_BYTES:
                        raise BuildFailed(f"{archive} is too large for a source archive of pyxis.")
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    stream = tar.extractfile(member)
                    if stream:
                        with open(path, "wb") as file:
                            shutil.copyfileobj(stream, file)
                        # make compares the files' modification times.
                        os.utime(path, (member.mtime, member.mtime))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BuildFailed(f"{archive} cannot be unpacked: {error}.") from error
    tops = [folder, *(entry.path for entry in sorted(os.scandir(folder), key=lambda entry: entry.name))]
    for top in tops:
        if os.path.isfile(os.path.join(top, "Makefile")):
            return top
    raise BuildFailed(f"{archive} has no Makefile: it is not a source archive of pyxis.")


def _give_away(folder: str) -> None:
    if os.geteuid() != 0:
        return
    for base, folders, files in os.walk(folder):
        os.chown(base, _NOBODY, _NOBODY)
        for name in (*folders, *files):
            os.chown(os.path.join(base, name), _NOBODY, _NOBODY, follow_symlinks=False)


def _is_elf(path: str) -> bool:
    # The build could have left a link to another file.
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == _ELF
