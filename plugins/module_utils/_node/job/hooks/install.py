# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Put scripts into their folders, each role its own set, and take away again what a set no longer has."""

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
    """Scripts that cannot be installed; the message names which, why, and what to do."""


@dataclass(frozen=True)
class DesiredScript:
    """A script that should be there.

    :ivar content: its text.
    :ivar limit: seconds that it may take; None where the kind's limit counts.
    """

    content: str
    limit: float | None = None


@dataclass(frozen=True)
class Plan:
    """What has to be done, in this order.

    :ivar folders: folders of scripts that are missing.
    :ivar files: scripts to remove and to write, and the settings, which say whose they are, last.
    :ivar warnings: what the user should know.
    """

    folders: tuple[str, ...]
    files: tuple[FileChange, ...]
    warnings: tuple[str, ...] = ()

    @property
    def actions(self) -> list[str]:
        """What is done, in words."""
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
    """Return the scripts of a kind as they are asked for; what is None is left out.

    :raises ConfigError: something about one makes no sense.
    """
    return {name: script for name, script in _SCRIPTS(kind, stated).items() if script}


def plan(root: Root, named: str, desired: DesiredScripts, limits: Mapping[str, Any] | None = None) -> Plan:
    """Return what makes the set ``named`` consist of these scripts; other sets and other files stay.

    :param limits: of the kinds; None leaves them as they are.
    :raises HookError: a script of that name is somebody else's.
    :raises ConfigError: limits make no sense.
    :raises OSError: something cannot be read.
    """
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
    """Do it.

    :raises OSError: something cannot be written or removed.
    """
    for path in made.folders:
        os.makedirs(root.at(path), mode=0o755, exist_ok=True)
        os.chmod(root.at(path), 0o755)
    for file in made.files:
        if file.after is not None and file.before is None:
            # A link there would be followed.
            remove_file(file.path)
        file.apply()


def _refuse_shared_names(named: str, scripts: Mapping[str, Any], sets: Mapping[str, Any]) -> None:
    for other, kinds in sets.items():
        for kind in KINDS if other != named else ():
            shared = sorted(set(scripts.get(kind, {})) & set(kinds.get(kind, {})))
            if shared:
                raise HookError(f"{kind} {shared[0]} belongs to the set {other}: give the one of {named} another name.")


def _script(path: str, content: str, is_ours: bool) -> FileChange:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return FileChange(path, None, content, _MODE)
    if is_ours and (not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid()):
        return FileChange(path, None, content, _MODE)
    if not stat.S_ISREG(found.st_mode):
        raise HookError(f"{path} is there and is no file of this set: move it away, or take another name.")
    change = change_of(path, content, _MODE)
    # The same text is what a run that was cut off has left.
    if not is_ours and change.before != content:
        raise HookError(f"{path} is there and was not put there for this set: move it away, or take another name.")
    return change


def _read(root: Root) -> tuple[HookSettings, tuple[str, ...]]:
    """Settings that cannot be used are written anew: each role brings its set again."""
    try:
        return read_settings(root), ()
    except ConfigError as error:
        return HookSettings(), (f"{error} It is written anew, and other roles bring their sets again.",)
