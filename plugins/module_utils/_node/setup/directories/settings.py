# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings file that several roles write to, each its own set of directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import Run
from ..managed_file import FileChange, change_of
from .fallback import undo
from .place import look
from .wanted import DEFAULTS, FOLDER_DEFAULTS, SETTINGS, Wanted, as_text, parse, read_settings


@dataclass(frozen=True)
class Change:
    """What becomes of the settings.

    :ivar file: the file, before and after.
    :ivar wanted: what it says afterwards; None where it is gone.
    :ivar warnings: what the user should know.
    """

    file: FileChange
    wanted: Wanted | None
    warnings: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[str, ...]:
        """What is done, in words."""
        return (f"{'write' if self.wanted else 'remove'} {SETTINGS}",) if self.file.changes else ()


def with_set(root: Root, name: str, folders: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> Change:
    """Return the change after which the set ``name`` consists of these directories; other sets stay.

    :param given: other settings; those that are None stay as they are.
    :raises OptionError: a value makes no sense, or two sets do not agree.
    """
    settings, warnings = _read(root)
    settings.update(_given(given))
    filled = [{**FOLDER_DEFAULTS, **_given(item)} for item in folders]
    settings["folders"] = {**settings["folders"], name: filled}
    wanted = parse(settings)
    return Change(change_of(root.at(SETTINGS), as_text(settings)), wanted, warnings)


def without_set(root: Root, name: str | None) -> Change:
    """Return the change after which the set ``name`` is gone; without a name, all of the settings.

    :raises OptionError: what is left makes no sense.
    """
    settings, warnings = _read(root)
    if name is None or not root.exists(SETTINGS):
        return Change(change_of(root.at(SETTINGS), None), None, warnings)
    settings["folders"] = {key: folders for key, folders in settings["folders"].items() if key != name}
    wanted = parse(settings)
    return Change(change_of(root.at(SETTINGS), as_text(settings)), wanted, warnings)


def unmount_fallback(root: Root, run: Run, check: bool) -> tuple[str, ...]:
    """Unmount our folder on the temporary disk, as far as it is mounted; what is in it stays.

    :return: what was done, or in check mode would be.
    :raises CommandFailed: somebody uses it.
    """
    settings, _warnings = _read(root)
    wanted = parse({"mountpoint": settings["mountpoint"]})
    if not look(wanted, root).is_fallback:
        return ()
    if not check:
        undo(wanted.mountpoint, run)
    return (f"unmount {wanted.mountpoint}",)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _read(root: Root) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings that cannot be used are written anew: each role brings its own set again."""
    try:
        found = read_settings(root) or {}
        if not isinstance(found.get("folders", {}), dict):
            raise ConfigError(f"{root.at(SETTINGS)}: folders is no mapping.")
        warnings: tuple[str, ...] = ()
    except ConfigError as error:
        found = {}
        warnings = (f"{error} It is written anew, and other roles bring their sets again.",)
    return {name: found.get(name, default) for name, default in DEFAULTS.items()}, warnings
