# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Look, judge and write: used by the module and by the boot step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...machine.config import as_config
from ...machine.root import Root
from ...machine.run import Run
from ...machine.verdict import FAIL
from ...machine.vm_size import AskImds, VmSizeName, remember, size_facts
from ...sku import VmSize
from ..managed_file import FileChange, apply_all, change_of, diff_of
from . import files
from .files import mpi_files, variables
from .library import NetPlugin, VersionVerdict, check_version, find_copies, find_plugin, loader_cache
from .options import CONFIG_PATH, PRESENT, EnvironmentOptions


class TooOld(RuntimeError):
    """NCCL is too old, and nothing was written; the message says which copy.

    :ivar judgement: the result of the version check.
    """

    def __init__(self, judgement: VersionVerdict) -> None:
        super().__init__(f"{judgement.summary} Nothing was written.")
        self.judgement = judgement


@dataclass(frozen=True)
class EnvironmentPlan:
    """What was found, and what has to be done.

    :ivar changes: the files, in the order in which they are written.
    :ivar size: the VM size; None if it was not needed.
    :ivar name: how it was found.
    :ivar nccl: the result of NCCL's version check.
    :ivar plugin: what was found of the plugin.
    :ivar environment: the variables that are written.
    """

    changes: tuple[FileChange, ...]
    size: VmSize | None = None
    name: VmSizeName | None = None
    nccl: VersionVerdict | None = None
    plugin: NetPlugin | None = None
    environment: dict[str, str] = field(default_factory=dict)


def ensure(
    root: Root,
    run: Run,
    options: EnvironmentOptions,
    check_mode: bool = False,
    ask: AskImds | None = None,
    keep: bool = True,
) -> dict[str, Any]:
    """Bring the files to the state in the options, and return the module's result.

    :param check_mode: only return what would be done.
    :param ask: function that queries the metadata service.
    :param keep: whether to write the settings file too; a boot does not.
    :raises TooOld: nothing was written.
    :raises ConfigError: the VM size cannot be found out, or a settings file is invalid.
    :raises UnknownVmSize: the VM size is unknown.
    :raises SettingsError: a setting cannot be written.
    :raises BrokenBlock: our block in an MPI file is incomplete.
    :raises OSError: a file cannot be read or written.
    """
    found = _look(root, run, options, ask) if options.apply else EnvironmentPlan(())
    if found.nccl and found.nccl.verdict == FAIL:
        raise TooOld(found.nccl)
    changes = [*found.changes, *([_settings_file(root, options)] if keep else [])]
    if not check_mode:
        apply_all(changes)
        if found.name and found.name.compute is not None:
            remember(root, found.name.compute)
    nccl, plugin = found.nccl, found.plugin
    return {
        "changed": any(change.changes for change in changes),
        "diff": diff_of(changes),
        "warnings": [nccl.summary] if nccl and nccl.verdict != "pass" else [],
        "vm_size": found.size.name if found.size else None,
        "vm_size_from": found.name.origin if found.name else None,
        "nccl": nccl.as_dict() if nccl else None,
        "environment": found.environment,
        "library_paths": list(plugin.folders) if plugin else [],
        "sharp_plugin": {"found": list(plugin.found), "reason": plugin.reason, "sharp": plugin.sharp}
        if plugin
        else None,
        "files": [change.path for change in changes if change.changes],
    }


def _look(root: Root, run: Run, options: EnvironmentOptions, ask: AskImds | None) -> EnvironmentPlan:
    at = root.at(files.PROFILE)
    if options.state != PRESENT:
        return EnvironmentPlan((change_of(at, None), *mpi_files(root, {})))
    size, name = size_facts(root, options.vm_size, options.vm_sizes, ask)
    cache = loader_cache(root, run)
    nccl = check_version(find_copies(root, run, cache, options.library_paths), options.min_version, options.when_old)
    plugin = find_plugin(root, size, options.sharp_plugin, cache, options.library_paths)
    environment = variables(size, options.mpi_launch_only, options.settings)
    return EnvironmentPlan(
        (
            change_of(at, files.profile_text(environment, plugin.folders)),
            *mpi_files(root, environment if options.mpi_files else {}),
        ),
        size,
        name,
        nccl,
        plugin,
        environment,
    )


def _settings_file(root: Root, options: EnvironmentOptions) -> FileChange:
    return change_of(root.at(CONFIG_PATH), as_config(options.remembered()) if options.persistent else None)
