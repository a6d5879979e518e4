# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Read, plan and write: used by the module and by ``hpcnode nccl``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...machine.root import Root, existing_root
from ...machine.vm_size import AskImds, remember
from ..managed_file import apply_all, diff_of, printable
from .facts import CONFIG_PATH, NcclFacts, read_facts, read_settings
from .options import CONF_PATH, ENROOT_DIR, TOPOLOGY_PATH, NcclOptions
from .plan import NcclPlan, Refused, outcome, plan, plan_settings


def ensure(
    options: NcclOptions, check_mode: bool = False, ask: AskImds | None = None, keep: bool = True
) -> dict[str, Any]:
    """Bring NCCL's files to the state in the options, and return the module's result.

    :param check_mode: only return what would be done.
    :param ask: function that queries the metadata service.
    :param keep: whether to write the settings file too; a boot does not.
    :raises Refused: nothing was written, see ``plan``.
    :raises ConfigError: the VM size cannot be found out, or a settings file is invalid.
    :raises UnknownVmSize: the VM size is unknown.
    :raises SettingsError: a setting cannot be written.
    :raises OSError: a file cannot be read or written.
    """
    existing_root(options.root)
    _check_root(options, check_mode)
    facts = read_facts(options, ask) if options.apply else read_settings()
    made = plan(options, facts) if options.apply else plan_settings(options, facts)
    if not keep:
        made = replace(made, changes=tuple(change for change in made.changes if change.path != CONFIG_PATH))
    if not check_mode:
        apply_all(made.changes)
        _remember(options, facts)
    return answer(made, facts)


def answer(made: NcclPlan, facts: NcclFacts) -> dict[str, Any]:
    """Return the module's result for a plan."""
    result: dict[str, Any] = _printable(
        {
            "changed": any(change.changes for change in made.changes),
            "diff": diff_of(made.changes),
            "warnings": list(made.warnings),
            **outcome(made, facts),
        }
    )
    return result


def _printable(content: Any) -> Any:
    """Replace bytes that are not UTF-8: other programs' lines may have them, and Ansible refuses them in a result."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, list):
        return [_printable(item) for item in content]
    if isinstance(content, dict):
        return {_printable(key): _printable(value) for key, value in content.items()}
    return content


def _check_root(options: NcclOptions, check_mode: bool) -> None:
    """Refuse to write facts of another machine to this machine's own files by default."""
    if options.root == "/" or check_mode:
        return
    if options.persistent:
        raise Refused(f"persistent is for the running machine only, but root is {options.root}.")
    defaults = {"topology_path": TOPOLOGY_PATH, "conf_path": CONF_PATH, "enroot_dir": ENROOT_DIR}
    meant_here = [name for name, default in defaults.items() if getattr(options, name) == default]
    if meant_here:
        raise Refused(
            f"root is {options.root}, but {', '.join(meant_here)} would be files of this machine. "
            f"Set them to other paths, or run in check mode."
        )


def _remember(options: NcclOptions, facts: NcclFacts) -> None:
    if facts.name and facts.name.compute is not None:
        remember(Root(options.root), facts.name.compute)
