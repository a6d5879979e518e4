# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings in /etc/hpcai/directories.json: checked, and changed by several roles, each for its own directories."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.config import FOLDER, ConfigError, as_config, read_config
from ...machine.root import Root
from ..managed_file import FileChange, change_of
from ..scratch.options import OptionError, check_path_of_mount, octal_mode

CONFIG = "directories"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
TEMPORARY_DISK, DIRECTORY = "temporary_disk", "directory"
FALLBACKS = (TEMPORARY_DISK, DIRECTORY)
DEFAULTS: Mapping[str, Any] = {
    "mountpoint": "/scratch",
    "fallback": list(FALLBACKS),
    "temporary_mounts": [],
    "folders": {},
}
FOLDER_DEFAULTS: Mapping[str, Any] = {"owner": "root", "group": "root", "mode": "0755"}
_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OTHERS_WRITE, _STICKY = 0o002, 0o1000


@dataclass(frozen=True)
class Folder:
    """A directory on the scratch.

    :ivar path: below the mountpoint, without a slash at either end.
    :ivar owner: name or number of its owner, looked up when it is made.
    :ivar group: name or number of its group.
    :ivar mode: its permissions, as a number.
    :ivar named: the set that wants it.
    """

    path: str
    owner: str
    group: str
    mode: int
    named: str

    def __str__(self) -> str:
        return f"{self.owner}:{self.group} {self.mode:04o}"


@dataclass(frozen=True)
class DirectoryOptions:
    """The settings, see module node_directories.

    :ivar fallback: what may take the place of NVMe disks, in this order.
    :ivar temporary_mounts: mountpoints of what counts as temporary disk; empty to find it.
    :ivar folders: all sets together, each directory after its parents.
    """

    mountpoint: str
    fallback: tuple[str, ...]
    temporary_mounts: tuple[str, ...]
    folders: tuple[Folder, ...]


def read_settings(root: Root) -> dict[str, Any] | None:
    """Return the settings; None where there are none.

    :raises ConfigError: the file cannot be used.
    """
    return read_config(root, CONFIG)


def read_options(root: Root) -> DirectoryOptions | None:
    """Return the settings, checked; None where there are none.

    :raises ConfigError: they cannot be used.
    """
    settings = read_settings(root)
    if settings is None:
        return None
    try:
        return parse(settings)
    except OptionError as error:
        raise ConfigError(f"{root.at(SETTINGS)}: {error}") from error


def parse(settings: Mapping[str, Any]) -> DirectoryOptions:
    """Return checked settings; those that are missing or None get their default.

    :raises OptionError: a value makes no sense.
    """
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise OptionError(f"unknown settings {', '.join(unknown)}; known are {', '.join(sorted(DEFAULTS))}")
    given = {name: default if settings.get(name) is None else settings[name] for name, default in DEFAULTS.items()}
    if not isinstance(given["mountpoint"], str):
        raise OptionError(f"mountpoint must be a path, not {given['mountpoint']!r}")
    mountpoint = given["mountpoint"].rstrip("/")
    check_path_of_mount(mountpoint)
    fallback = _texts("fallback", given["fallback"])
    strange = [name for name in fallback if name not in FALLBACKS]
    if strange:
        raise OptionError(f"fallback must be a list of {' and '.join(FALLBACKS)}, not {strange[0]!r}")
    mounts = tuple(path.rstrip("/") for path in _texts("temporary_mounts", given["temporary_mounts"]))
    for path in mounts:
        check_path_of_mount(path)
        if f"{mountpoint}/".startswith(f"{path}/"):
            raise OptionError(
                f"mountpoint {mountpoint} lies on the temporary disk's {path}, whose mount hides it: choose another, "
                f"such as /scratch"
            )
    return DirectoryOptions(mountpoint, fallback, mounts, _folders(given["folders"], mountpoint))


def as_text(settings: Mapping[str, Any]) -> str:
    """Return the settings as /etc/hpcai/directories.json holds them."""
    return as_config({name: settings.get(name, default) for name, default in DEFAULTS.items()})


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise OptionError(f"{name} must be a list of texts, not {value!r}")
    return tuple(value)


def _folders(sets: Any, mountpoint: str) -> tuple[Folder, ...]:
    if not isinstance(sets, Mapping):
        raise OptionError(f"folders must be a mapping of lists by the name of who wants them, not {sets!r}")
    found: dict[str, Folder] = {}
    for named, folders in sets.items():
        if not isinstance(named, str) or not _SET_NAME.fullmatch(named):
            raise OptionError(f"name must be letters, digits, dots, dashes and underscores, not {named!r}")
        if not isinstance(folders, Sequence) or isinstance(folders, str):
            raise OptionError(f"folders of {named} must be a list, not {folders!r}")
        for item in folders:
            folder = _folder(item, mountpoint, named)
            other = found.setdefault(folder.path, folder)
            if str(other) != str(folder):
                raise OptionError(
                    f"{other.named} wants {folder.path} {other}, and {named} wants it {folder}: they must agree"
                )
    return tuple(found[path] for path in sorted(found, key=lambda path: path.split("/")))


def _folder(item: Any, mountpoint: str, named: str) -> Folder:
    if not isinstance(item, Mapping) or not isinstance(item.get("path"), str):
        raise OptionError(f"each of the folders of {named} needs a path: {item!r}")
    unknown = sorted(set(item) - {"path", *FOLDER_DEFAULTS})
    if unknown:
        raise OptionError(
            f"{item['path']} of {named}: unknown {', '.join(unknown)}; known are path, owner, group and mode"
        )
    given = {name: default if item.get(name) is None else item[name] for name, default in FOLDER_DEFAULTS.items()}
    path = _below(item["path"], mountpoint, named)
    try:
        mode = octal_mode(given["mode"])
    except OptionError as error:
        raise OptionError(f"{path} of {named}: {error}") from error
    if mode & _OTHERS_WRITE and not mode & _STICKY:
        raise OptionError(
            f"{path} of {named}: mode {mode:04o} lets every user delete what others put there: use {mode | _STICKY:04o}"
        )
    return Folder(path, str(given["owner"]), str(given["group"]), mode, named)


def _below(path: str, mountpoint: str, named: str) -> str:
    inside = path
    if path.startswith("/"):
        if not path.startswith(f"{mountpoint}/"):
            raise OptionError(f"{path} of {named} is not below {mountpoint}: give a path below it, or relative to it")
        inside = path[len(mountpoint) :]
    parts = [part for part in inside.split("/") if part]
    if not parts or ".." in parts or "." in parts or posixpath.normpath("/".join(parts)) != "/".join(parts):
        raise OptionError(f"path of {named} must be a directory below {mountpoint} without '.' and '..', not {path!r}")
    return "/".join(parts)


# The settings file that several roles write to, each its own set of directories.


@dataclass(frozen=True)
class SettingsChange:
    """What becomes of the settings.

    :ivar file: the file, before and after.
    :ivar wanted: what it says afterwards; None where it is gone.
    :ivar warnings: what the user should know.
    """

    file: FileChange
    wanted: DirectoryOptions | None
    warnings: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[str, ...]:
        """What is done, in words."""
        return (f"{'write' if self.wanted else 'remove'} {SETTINGS}",) if self.file.changes else ()


def with_set(root: Root, name: str, folders: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> SettingsChange:
    """Return the change after which the set ``name`` consists of these directories; other sets stay.

    :param given: other settings; those that are None stay as they are.
    :raises OptionError: a value makes no sense, or two sets do not agree.
    """
    settings, warnings = read_or_defaults(root)
    settings.update(_given(given))
    filled = [{**FOLDER_DEFAULTS, **_given(item)} for item in folders]
    settings["folders"] = {**settings["folders"], name: filled}
    wanted = parse(settings)
    return SettingsChange(change_of(root.at(SETTINGS), as_text(settings)), wanted, warnings)


def without_set(root: Root, name: str | None) -> SettingsChange:
    """Return the change after which the set ``name`` is gone; without a name, all of the settings.

    :raises OptionError: what is left makes no sense.
    """
    settings, warnings = read_or_defaults(root)
    if name is None or not root.exists(SETTINGS):
        return SettingsChange(change_of(root.at(SETTINGS), None), None, warnings)
    settings["folders"] = {key: folders for key, folders in settings["folders"].items() if key != name}
    wanted = parse(settings)
    return SettingsChange(change_of(root.at(SETTINGS), as_text(settings)), wanted, warnings)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def read_or_defaults(root: Root) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings, and warnings; the defaults where the file cannot be used: each role writes its set again."""
    try:
        found = read_settings(root) or {}
        if not isinstance(found.get("folders", {}), dict):
            raise ConfigError(f"{root.at(SETTINGS)}: folders is no mapping.")
        warnings: tuple[str, ...] = ()
    except ConfigError as error:
        found = {}
        warnings = (f"{error} It is written anew, and other roles bring their sets again.",)
    return {name: found.get(name, default) for name, default in DEFAULTS.items()}, warnings
