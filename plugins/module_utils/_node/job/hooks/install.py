# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Installs scripts in their folders, one set per role, and removes scripts that a set no longer contains."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...forms import Malformed, instance_of, mapping_of, matching, optional
from ...machine.atomic import remove_file
from ...machine.config import ConfigError
from ...machine.root import Root
from ...setup.managed_file import FileChange, change_of
from .options import (
    KINDS,
    NAME,
    NAME_WORDS,
    SETTINGS,
    HookSettings,
    as_text,
    folder,
    limits_from,
    read_settings,
    seconds,
)

_MODE = 0o755


class HookError(ConfigError):
    """Scripts cannot be installed; the message says which, why, and what to do."""


@dataclass(frozen=True)
class DesiredScript:
    """A script to install.

    :ivar content: its text.
    :ivar limit: its time limit in seconds; None to use the limit of its kind.
    """

    content: str
    limit: float | None = None


@dataclass(frozen=True)
class Plan:
    """What has to be done, in this order.

    :ivar folders: missing folders of scripts.
    :ivar files: scripts to remove and to write, then the settings, which record the set of each script.
    :ivar warnings: for the user.
    """

    folders: tuple[str, ...]
    files: tuple[FileChange, ...]
    warnings: tuple[str, ...] = ()

    @property
    def actions(self) -> list[str]:
        """The actions in words."""
        made = [f"make {path}" for path in self.folders]
        return made + [f"{'remove' if file.after is None else 'write'} {file.path}" for file in self.files]


DesiredScripts = Mapping[str, Mapping[str, DesiredScript]]
"""By kind and name."""


def _content(path: str, value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("#!/"):
        raise Malformed(f"{path} must be a script that begins with '#!/', such as '#!/bin/sh'.")
    return value if value.endswith("\n") else f"{value}\n"


_SCRIPTS = mapping_of(
    matching(NAME, NAME_WORDS),
    optional(instance_of(DesiredScript, {"content": _content, "limit": optional(seconds)})),
)


def scripts_from(kind: str, stated: Mapping[str, Any]) -> dict[str, DesiredScript]:
    """Parse the scripts of a kind; values of None are left out.

    :raises ConfigError: a value is invalid.
    """
    return {name: script for name, script in _SCRIPTS(kind, stated).items() if script}


def plan(root: Root, named: str, desired: DesiredScripts, limits: Mapping[str, Any] | None = None) -> Plan:
    """Plan what makes the set ``named`` consist of these scripts; other sets and other files stay unchanged.

    :param limits: of the kinds; None keeps the current ones.
    :raises HookError: a file of that name does not belong to this set.
    :raises ConfigError: limits are invalid.
    :raises OSError: a file cannot be read.
    """
    if not any(desired.values()) and limits is None and not root.exists(SETTINGS):
        # Nothing was ever installed, so there is nothing to remove.
        return Plan((), ())
    before, warnings = _read(root)
    script_limits = {
        kind: {name: script.limit for name, script in scripts.items()} for kind, scripts in desired.items()
    }
    sets = {name: kinds for name, kinds in before.sets.items() if name != named}
    if any(script_limits.values()):
        sets[named] = {kind: scripts for kind, scripts in script_limits.items() if scripts}
    _refuse_shared_names(named, script_limits, sets)
    after = replace(before, sets=sets, limits=before.limits if limits is None else limits_from("limits", limits))
    files = []
    for kind in KINDS:
        had = before.sets.get(named, {}).get(kind, {})
        for name in sorted(set(had) - set(script_limits.get(kind, {}))):
            files.append(change_of(root.at(f"{folder(kind)}/{name}"), None))
        for name, script in sorted(desired.get(kind, {}).items()):
            files.append(_script(root.at(f"{folder(kind)}/{name}"), script.content, name in had))
    files.append(change_of(root.at(SETTINGS), as_text(after)))
    missing = tuple(folder(kind) for kind in KINDS if not os.path.isdir(root.at(folder(kind))))
    return Plan(missing, tuple(file for file in files if file.changes), warnings)


def apply(root: Root, made: Plan) -> None:
    """Apply the plan.

    :raises OSError: a file cannot be written or removed.
    """
    for path in made.folders:
        os.makedirs(root.at(path), mode=0o755, exist_ok=True)
        os.chmod(root.at(path), 0o755)
    for file in made.files:
        if file.after is not None and file.before is None:
            # Writing would follow a symbolic link at this path.
            remove_file(file.path)
        file.apply()


def _refuse_shared_names(named: str, scripts: Mapping[str, Any], sets: Mapping[str, Any]) -> None:
    for other, kinds in sets.items():
        for kind in KINDS if other != named else ():
            shared = sorted(set(scripts.get(kind, {})) & set(kinds.get(kind, {})))
            if shared:
                raise HookError(
                    f"{kind} script {shared[0]} belongs to the set {other}: rename the script of the set {named}."
                )


def _script(path: str, content: str, is_ours: bool) -> FileChange:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return FileChange(path, None, content, _MODE)
    if is_ours and (not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid()):
        return FileChange(path, None, content, _MODE)
    if not stat.S_ISREG(found.st_mode):
        raise HookError(f"{path} exists and is not a regular file: remove it, or use another name for the script.")
    change = change_of(path, content, _MODE)
    # A run that was interrupted before it wrote the settings leaves the same text.
    if not is_ours and change.before != content:
        raise HookError(f"{path} exists and is not of this set: remove it, or use another name for the script.")
    return change


def _read(root: Root) -> tuple[HookSettings, tuple[str, ...]]:
    """Invalid settings are replaced: each role adds its set again when it runs."""
    try:
        return read_settings(root), ()
    except ConfigError as error:
        return HookSettings(), (f"{error} The file is rewritten; other roles add their sets again when they run.",)
