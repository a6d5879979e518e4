# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step nccl: writes NCCL's topology file, variables and environment for this machine's VM size.

The modules nccl_topology and nccl_environment store their options in /etc/hpcai; without them, the defaults apply. A
topology that does not match the machine is not written, whatever the module's option says, because the boot cannot fail
for it and must not leave a wrong file. NCCL then detects the topology itself; all other settings are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...health.check import FAIL, PASS, SKIP, WARN
from ...machine.config import ConfigError, read_config
from ...machine.pci import read_pci
from ...machine.root import Root
from ...machine.vm_size import AskImds, size_facts
from ...setup.managed_file import BrokenBlock
from ...setup.nccl import ensure as files
from ...setup.nccl.conf import SettingsError
from ...setup.nccl.facts import CONFIG_PATH
from ...setup.nccl.options import OMIT, PRESENT, STRICT, NcclOptions, options_of
from ...setup.nccl.plan import Refused
from ...setup.nccl_environment import ensure as environment
from ...setup.nccl_environment import options as environment_options
from ...sku import UnknownVmSize
from ..step import Context, Outcome, Step

_IMDS_LIMIT_S = 25.0
_ACTION = "Run 'hpcnode nccl verify' to see what differs, and 'hpcnode boot run nccl' to try again"


def _perform(context: Context) -> Outcome:
    root, ask = context.root, _asked_once()
    options = options_of(read_config(root, "nccl") or {})
    env_options = environment_options.options_of(read_config(root, environment_options.CONFIG) or {})
    gpus = any(device.is_gpu for device in read_pci(root))
    try:
        size, _name = size_facts(root, options.vm_size, options.vm_sizes, ask)
    except (ConfigError, UnknownVmSize):
        if not gpus:
            return Outcome(SKIP, "there is no GPU")
        raise
    if size.gpu_count == 0 or (size.gpu_count is None and not gpus):
        return Outcome(SKIP, f"{size.name} has no GPU")

    done: dict[str, Any] = {}
    more: dict[str, Any] = {}
    problems: list[str] = []
    with_topology, with_environment = options.state == PRESENT, env_options.state == PRESENT
    if not with_topology and not with_environment:
        return Outcome(SKIP, f"turned off: state is absent in {CONFIG_PATH} and {environment_options.CONFIG_PATH}")
    try:
        if with_topology:
            done = files.ensure(_at_boot(options, root), context.check, ask, keep=False)
    except (Refused, SettingsError) as error:
        problems.append(f"{CONFIG_PATH}: {error}" if isinstance(error, SettingsError) else str(error))
    try:
        # An NCCL that is too old must not keep the rest from being set up.
        env_options = replace(env_options, when_old=WARN)
        if with_environment:
            more = environment.ensure(root, context.run, env_options, context.check, ask, keep=False)
    except (BrokenBlock, SettingsError) as error:
        where = f"{environment_options.CONFIG_PATH}: " if isinstance(error, SettingsError) else ""
        problems.append(f"{where}{error}")
    return _outcome(size.name, done, more, problems)


def _at_boot(options: NcclOptions, root: Root) -> NcclOptions:
    """Return the options with paths below the root; on the running machine they are unchanged."""
    return replace(
        options,
        root=root.path,
        topology_path=root.at(options.topology_path),
        conf_path=root.at(options.conf_path),
        enroot_dir=root.at(options.enroot_dir) if options.enroot_dir else None,
        verify=OMIT if options.verify == STRICT else options.verify,
    )


def _outcome(size: str, done: Mapping[str, Any], more: Mapping[str, Any], problems: list[str]) -> Outcome:
    changes = (*done.get("files", ()), *more.get("files", ()))
    version = more.get("nccl") or {}
    warnings = list(done.get("warnings", ()))
    if version.get("verdict") == WARN:
        warnings.append(version["summary"])
    details = {
        "vm_size": size,
        "mismatches": done.get("mismatches", []),
        "topology_reason": done.get("topology_reason", ""),
        "variables": done.get("environment", {}),
        "nccl": version,
        "environment": more.get("environment", {}),
        "library_paths": more.get("library_paths", []),
        "warnings": warnings,
    }
    if problems:
        return Outcome(FAIL, "; ".join(problems), _ACTION, changes, details)
    if details["mismatches"]:
        first = details["mismatches"][0]
        untrue = f"The topology file of {size} was written, but does not match this machine."
        reason = details["topology_reason"] or untrue
        about = f"{first['what']}: expected {first['expected']}, found {first['found']}"
        return Outcome(WARN, f"{reason[:-1]}: {about}{_and_more(details['mismatches'])}", _ACTION, changes, details)
    if warnings:
        return Outcome(WARN, warnings[0] + _and_more(warnings), "", changes, details)
    what = f"NCCL has the topology file and the variables of {size}"
    if not done:
        what = f"jobs with NCCL have the environment of {size}; the topology file and variables are turned off"
    elif details["topology_reason"]:
        what = f"NCCL has the variables of {size}. {details['topology_reason']}"
    return Outcome(PASS, what, "", changes, details)


def _and_more(lines: list[Any]) -> str:
    return f", and {len(lines) - 1} more" if len(lines) > 1 else ""


def _asked_once() -> AskImds:
    """Return a function that queries the metadata service at most once, with a long timeout for a late network."""
    answers: list[dict[str, Any]] = []

    def ask() -> dict[str, Any]:
        # Imported here, because the HTTP modules take longer to import than all the rest.
        from ...machine import imds

        if not answers:
            answers.append(imds.read_compute(_IMDS_LIMIT_S))
        return answers[0]

    return ask


STEP = Step("nccl", "NCCL's topology file and variables", blocking=False, limit_s=60, perform=_perform)
