# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings in /etc/hpcai/directories.json: checked, and changed by several roles, each for its own directories."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...forms import (
    Form,
    Malformed,
    arguments_of,
    choice,
    list_of,
    mapping_of,
    matching,
    record,
    string,
    text_or_number,
)
from ...machine.config import FOLDER, ConfigError, as_config, read_checked, read_config
from ...machine.root import Root
from ..managed_file import FileChange, change_of
from ..scratch.options import mountpoint, octal_mode

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
_OTHERS_WRITE, _STICKY = 0o002, 0o1000


@dataclass(frozen=True)
class Folder:
    """A directory on the scratch.

    :ivar path: relative to the mountpoint, without a slash at either end.
    :ivar owner: name or uid of its owner, looked up when it is made.
    :ivar group: name or gid of its group.
    :ivar mode: its permissions, as a number.
    :ivar named: name of the set that it belongs to.
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

    :ivar fallback: what may be used without NVMe disks, in this order.
    :ivar temporary_mounts: mountpoints to treat as the temporary disk; empty to detect it.
    :ivar folders: the directories of all sets, each directory after its parents.
    """

    mountpoint: str
    fallback: tuple[str, ...]
    temporary_mounts: tuple[str, ...]
    folders: tuple[Folder, ...]


def read_settings(root: Root) -> dict[str, Any] | None:
    """Return the settings; None if there are none.

    :raises ConfigError: the file is invalid.
    """
    return read_config(root, CONFIG)


def read_options(root: Root) -> DirectoryOptions | None:
    """Return the settings, checked; None if there are none.

    :raises ConfigError: the settings are invalid.
    """
    return read_checked(root, CONFIG, lambda _path, settings: parse(settings))


_FOLDER_FORMS: Mapping[str, Form[Any]] = {
    "path": string,
    "owner": text_or_number,
    "group": text_or_number,
    "mode": octal_mode,
}
_FOLDER = record(_FOLDER_FORMS, required=("path",), null_is_absent=True, defaults=FOLDER_DEFAULTS)
_LOCATION: Mapping[str, Form[Any]] = {
    "mountpoint": mountpoint,
    "fallback": list_of(choice(*FALLBACKS)),
    "temporary_mounts": list_of(mountpoint),
}
FOLDER_ARGUMENTS = arguments_of(_FOLDER_FORMS, FOLDER_DEFAULTS, required=("path",))
LOCATION_ARGUMENTS = arguments_of(_LOCATION, {})
"""The options as argument_specs: of one directory, and of the common settings, where a missing one means no change."""
_FORM = record(
    {
        **_LOCATION,
        # By name of the set, e.g. of the role that needs them.
        "folders": mapping_of(
            matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, dots, dashes and underscores"),
            list_of(_FOLDER),
        ),
    },
    null_is_absent=True,
    defaults=DEFAULTS,
)


def parse(settings: Mapping[str, Any]) -> DirectoryOptions:
    """Return checked settings; missing ones and those that are None get their default.

    :raises ConfigError: a value is invalid.
    """
    found = _FORM("", settings)
    on = found["mountpoint"]
    for path in found["temporary_mounts"]:
        if f"{on}/".startswith(f"{path}/"):
            raise Malformed(
                f"mountpoint {on} is below {path}, where the temporary disk will be mounted and hide it. Choose "
                "another, such as /scratch."
            )
    return DirectoryOptions(on, found["fallback"], found["temporary_mounts"], _folders(found["folders"], on))


def as_text(settings: Mapping[str, Any]) -> str:
    """Return the settings as the text of /etc/hpcai/directories.json."""
    return as_config({name: settings.get(name, default) for name, default in DEFAULTS.items()})


def _folders(sets: Mapping[str, Sequence[Mapping[str, Any]]], top: str) -> tuple[Folder, ...]:
    found: dict[str, Folder] = {}
    for named, folders in sets.items():
        for item in folders:
            folder = Folder(_below(item["path"], top, named), item["owner"], item["group"], item["mode"], named)
            if folder.mode & _OTHERS_WRITE and not folder.mode & _STICKY:
                raise Malformed(
                    f"{folder.path} of {named}: mode {folder.mode:04o} lets every user delete the files of others. "
                    f"Use {folder.mode | _STICKY:04o}."
                )
            other = found.setdefault(folder.path, folder)
            if str(other) != str(folder):
                raise Malformed(
                    f"{other.named} requires {folder.path} {other}, but {named} requires {folder}. Make them equal."
                )
    return tuple(found[path] for path in sorted(found, key=lambda path: path.split("/")))


def _below(path: str, top: str, named: str) -> str:
    inside = path
    if path.startswith("/"):
        if not path.startswith(f"{top}/"):
            raise Malformed(f"{path} of {named} is not below {top}. Set a path below it, or a relative one.")
        inside = path[len(top) :]
    names = [name for name in inside.split("/") if name]
    if not names or ".." in names or "." in names or posixpath.normpath("/".join(names)) != "/".join(names):
        raise Malformed(f"path of {named} must be a directory below {top} without '.' and '..', not {path!r}.")
    return "/".join(names)


# Several roles write to the settings file, each its own set of directories.


@dataclass(frozen=True)
class SettingsChange:
    """A change of the settings.

    :ivar file: the file, before and after.
    :ivar options: its content afterwards; None if it is removed.
    :ivar warnings: what the user should know.
    """

    file: FileChange
    options: DirectoryOptions | None
    warnings: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[str, ...]:
        """The change in words."""
        return (f"{'write' if self.options else 'remove'} {SETTINGS}",) if self.file.changes else ()


def with_set(root: Root, name: str, folders: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> SettingsChange:
    """Return the change after which the set ``name`` consists of these directories; other sets stay.

    :param given: other settings; those that are None stay unchanged.
    :raises ConfigError: a value is invalid, or two sets do not agree.
    """
    settings, warnings = read_or_defaults(root)
    settings.update(_given(given))
    filled = [{**FOLDER_DEFAULTS, **_given(item)} for item in folders]
    settings["folders"] = {**settings["folders"], name: filled}
    options = parse(settings)
    return SettingsChange(change_of(root.at(SETTINGS), as_text(settings)), options, warnings)


def without_set(root: Root, name: str | None) -> SettingsChange:
    """Return the change that removes the set ``name``; without a name, all of the settings.

    :raises ConfigError: the rest is invalid.
    """
    settings, warnings = read_or_defaults(root)
    if name is None or not root.exists(SETTINGS):
        return SettingsChange(change_of(root.at(SETTINGS), None), None, warnings)
    settings["folders"] = {key: folders for key, folders in settings["folders"].items() if key != name}
    options = parse(settings)
    return SettingsChange(change_of(root.at(SETTINGS), as_text(settings)), options, warnings)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def read_or_defaults(root: Root) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings and warnings; the defaults if the file is invalid, because each role writes its set again."""
    try:
        found = read_settings(root) or {}
        if not isinstance(found.get("folders", {}), dict):
            raise ConfigError(f"{root.at(SETTINGS)}: folders is not a mapping.")
        warnings: tuple[str, ...] = ()
    except ConfigError as error:
        found = {}
        warnings = (f"{error} The file is rewritten, and the other roles add their directories again.",)
    return {name: found.get(name, default) for name, default in DEFAULTS.items()}, warnings
