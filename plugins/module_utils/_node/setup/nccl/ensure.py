# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Do all of it: read, plan, write. What the module and ``hpcnode nccl`` call."""

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
    """Bring NCCL's files to what the options say, and return what the module returns.

    :param check_mode: only say what would be done.
    :param ask: what asks the metadata service.
    :param keep: whether the settings file is brought to the options too; a boot leaves it alone.
    :raises Refused: nothing was written, see ``plan``.
    :raises ConfigError: the VM size is not told, or a settings file cannot be used.
    :raises UnknownVmSize: it is not known.
    :raises SettingsError: a setting that cannot be written.
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
    """Return what the module returns of a plan."""
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
    """Others' lines may hold what is no UTF-8, which Ansible refuses in an answer."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, list):
        return [_printable(item) for item in content]
    if isinstance(content, dict):
        return {_printable(key): _printable(value) for key, value in content.items()}
    return content


def _check_root(options: NcclOptions, check_mode: bool) -> None:
    """Facts of another machine must not end up in this machine's own files by a default."""
    if options.root == "/" or check_mode:
        return
    if options.persistent:
        raise Refused(f"persistent is for the running machine only, and root is {options.root}.")
    defaults = {"topology_path": TOPOLOGY_PATH, "conf_path": CONF_PATH, "enroot_dir": ENROOT_DIR}
    meant_here = [name for name, default in defaults.items() if getattr(options, name) == default]
    if meant_here:
        raise Refused(
            f"root is {options.root}, and {', '.join(meant_here)} would be this machine's own: "
            f"say where to write, or run in check mode."
        )


def _remember(options: NcclOptions, facts: NcclFacts) -> None:
    if facts.name and facts.name.compute is not None:
        remember(Root(options.root), facts.name.compute)
