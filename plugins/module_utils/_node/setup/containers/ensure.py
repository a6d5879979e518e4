# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All that a node needs for containers: folders on the scratch, enroot's settings, the pyxis plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ..directories import options as directories
from ..directories.ensure import ensure
from .enroot import configure, unconfigure
from .options import EnrootOptions, options_of
from .pyxis import LINK, PREFIX, BuildFailed, BuildPlan, as_diff, install, plan_build, remove

SET = "containers"
"""Name of the set of directories in /etc/hpcai/directories.json."""


@dataclass(frozen=True)
class ContainerOptions:
    """What a node needs.

    :ivar pyxis: the option pyxis of the module container_node; empty to leave the plugin unchanged.
    :ivar folders: directories on the scratch.
    :ivar make_folders: whether to make them now.
    :ivar apply: whether to change settings of the running machine.
    """

    enroot: EnrootOptions
    pyxis: Mapping[str, str]
    folders: Sequence[Mapping[str, Any]]
    make_folders: bool
    apply: bool


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be done."""

    actions: tuple[str, ...]
    diff: tuple[dict[str, str], ...]
    warnings: tuple[str, ...]


def parse(
    enroot: Mapping[str, Any], pyxis: Mapping[str, Any], folders: Sequence[Mapping[str, Any]], make_folders: bool
) -> ContainerOptions:
    """Return the checked options of the module container_node.

    :raises ConfigError: an option is unknown, or has an invalid value.
    """
    stated = {name: str(value) for name, value in pyxis.items() if value is not None}
    if stated and not (stated.get("source") and stated.get("version")):
        raise ConfigError("pyxis needs source and version.")
    options = {name: value for name, value in enroot.items() if name != "apply"}
    return ContainerOptions(options_of(options), stated, folders, make_folders, bool(enroot.get("apply", True)))


def ensure_all(asked: ContainerOptions, root: Root, run: Run, check: bool) -> Outcome:
    """Do all of it. The plugin comes last: until it exists and slurmd loads it, no job can start a container.

    :raises BuildFailed: the plugin cannot be built.
    :raises CommandFailed: a folder cannot be made, or a setting cannot be applied.
    :raises OSError: a file or a folder cannot be written.
    """
    plan, unsure = _look(asked, root, run, check)
    change = directories.with_set(root, SET, asked.folders, {}) if asked.folders else directories.without_set(root, SET)
    actions, warnings = list(change.actions), [*change.warnings, *unsure]
    if not check:
        change.file.apply()
    if asked.folders and asked.make_folders and change.options:
        made = ensure(change.options, root, run, check)
        if made.problems:
            raise CommandFailed("; ".join(made.problems))
        actions += made.actions
        warnings += made.warnings
    done = configure(asked.enroot, root, run, check, asked.apply)
    actions += done.actions
    diff = [*([change.file.as_diff()] if change.file.changes else []), *done.diff]
    if plan and plan.reason:
        if not check:
            install(plan, asked.pyxis["source"], root, run)
        actions.append(f"build {LINK}: {plan.reason}")
        diff.append(as_diff(plan))
    return Outcome(tuple(actions), tuple(diff), tuple(warnings))


def remove_all(root: Root, check: bool) -> Outcome:
    """Remove what ``ensure_all`` writes, except the directories on the scratch, which contain users' files.

    :raises ConfigError: the settings of the directories are invalid.
    :raises OSError: a file cannot be removed.
    """
    change = directories.without_set(root, SET)
    if not check:
        change.file.apply()
    done = unconfigure(root, check)
    diff = [*([change.file.as_diff()] if change.file.changes else []), *done.diff]
    return Outcome((*change.actions, *done.actions, *remove(root, check)), tuple(diff), change.warnings)


def _look(asked: ContainerOptions, root: Root, run: Run, check: bool) -> tuple[BuildPlan | None, tuple[str, ...]]:
    """Plan the plugin's build, and return a warning if check mode cannot: earlier tasks installed nothing."""
    if not asked.pyxis:
        return None, ()
    given = asked.pyxis
    try:
        plan = plan_build(
            given["source"], given.get("sha256", ""), given["version"], root, run, given.get("prefix", PREFIX)
        )
    except BuildFailed as error:
        if not check:
            raise
        return None, (f"{error} Check mode cannot tell whether this run would have installed it.",)
    return plan, ()
