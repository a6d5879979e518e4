# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode nccl: NCCL's topology file and variables: shows them, compares them with the machine, writes them at boot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..machine.config import ConfigError, read_config
from ..machine.root import Root
from ..machine.vm_size import VmSizeUndetermined, size_facts, vm_size_of
from ..setup.nccl.conf import SettingsError
from ..setup.nccl.ensure import ensure
from ..setup.nccl.facts import CONFIG_PATH
from ..setup.nccl.options import PRESENT, NcclOptions, options_of
from ..setup.nccl.plan import Refused
from ..setup.nccl.topology import as_xml, gpu_map
from ..setup.nccl.verify import Inspection, inspect
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

_BOOT_LIMIT_S = 30.0

_DESCRIPTION = """\
NCCL's topology file and variables of this VM size.

The VM size comes from /etc/hpcai/nccl.json or node.json, else from the metadata service, else from that service's last
answer.
"""
_SHOW = """\
Prints the NUMA node, CPUs and adapters of each GPU of this VM size, and the variables that NCCL gets. With --xml it
prints the topology file instead. It shows the collection's data for the VM size, and does not inspect the machine.

With --vm-size, it uses the paths and variables in /etc/hpcai/nccl.json only if SIZE is the size of this machine.

Exit status: 0 good, 2 the VM size is not known; with --xml also: no topology file is generated for the size.
"""
_VERIFY = """\
Compares the collection's data for the VM size with the machine: PCI addresses, NUMA nodes, CPUs of each node. If the
module nccl_topology has configured this machine, verify also checks that its topology file and variables are still in
place. For example, the HPC images have a service that rewrites /etc/nccl.conf at every boot and removes these
variables.

Exit status: 0 everything matches, 1 something differs, 2 the machine cannot be read, the VM size is not known, or there
is nothing to compare: no topology file is generated for the size, and no variables are configured.
"""
_APPLY_AGAIN = """\
Applies the last settings of the module nccl_topology (/etc/hpcai/nccl.json) again. The boot phase does that and more
('hpcnode boot run nccl'); a failure there does not keep the node from taking jobs.

Exit status: 0 done, 1 refused (nothing was written) or failed, 2 the VM size is not known, or there is no
/etc/hpcai/nccl.json.
"""


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_vm_size(parser)
    parser.add_argument("--xml", action="store_true", help="print the topology file")


def _add_vm_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vm-size", metavar="SIZE", help="use this VM size instead of the machine's")


def _execute(args: argparse.Namespace) -> Answer:
    if args.action == "apply":
        return _apply(args)
    remembered = read_config(Root(args.root), "nccl")
    options = replace(options_of(remembered or {}), root=args.root)
    if args.vm_size:
        options = _for_size(options, args)
    try:
        inspection = inspect(options, configured=remembered is not None and options.state == PRESENT)
    except SettingsError as error:
        raise ConfigError(f"{CONFIG_PATH}: {error}") from None
    return _verdict(inspection) if args.action == "verify" else _shown(inspection, args.xml)


def _for_size(options: NcclOptions, args: argparse.Namespace) -> NcclOptions:
    """Return the options for the named size, without this machine's paths and variables if it is another size."""
    if args.action == "show" and not _is_size_of_machine(options, args):
        options = NcclOptions(vm_sizes=options.vm_sizes, root=options.root)
    return replace(options, vm_size=args.vm_size)


def _is_size_of_machine(options: NcclOptions, args: argparse.Namespace) -> bool:
    root = Root(args.root)
    named, _name = size_facts(root, args.vm_size, options.vm_sizes)
    try:
        of_machine = vm_size_of(root, options.vm_size, ask=_ask_nobody)
    except VmSizeUndetermined:
        return False
    return of_machine.name == named.name


def _apply(args: argparse.Namespace) -> Answer:
    if args.root != "/":
        raise UsageError("apply uses /etc/hpcai/nccl.json of the running machine: leave out --root.")
    remembered = read_config(Root(), "nccl")
    if remembered is None:
        raise ConfigError(f"{CONFIG_PATH} does not exist: the module nccl_topology writes it.")
    options = replace(options_of(remembered), persistent=True)
    try:
        done = ensure(options, ask=_ask_at_boot)
    except (Refused, SettingsError) as error:
        mismatches = [mismatch.as_dict() for mismatch in getattr(error, "mismatches", ())]
        return Answer(BAD, str(error), {"changed": False, "error": str(error), "mismatches": mismatches})
    lines = [f"{'wrote' if done['changed'] else 'unchanged'}: {', '.join(done['files']) or 'everything is in place'}"]
    lines += [f"warning: {warning}" for warning in done["warnings"]]
    kept = {key: value for key, value in done.items() if key not in ("diff", "topology")}
    return Answer(GOOD, "\n".join(lines), kept)


def _ask_at_boot() -> dict[str, Any]:
    """Query the metadata service with a long timeout: the network may not be up yet, and the size may have changed."""
    # Imported here, because the HTTP modules take longer to import than all the rest.
    from ..machine import imds

    return imds.read_compute(_BOOT_LIMIT_S)


def _ask_nobody() -> dict[str, Any]:
    """Do not query the metadata service, because showing a size must not wait for the network."""
    from ..machine import imds

    raise imds.ImdsError("it was not asked")


def _verdict(inspection: Inspection) -> Answer:
    mismatches, unknown = inspection.comparison.mismatches, inspection.comparison.unknown
    lines = [f"wrong: {mismatch}" for mismatch in mismatches] + [f"unknown: {what}" for what in unknown]
    if inspection.reason:
        lines.append(inspection.reason)
    if not mismatches and not unknown and inspection.topology:
        lines.append(f"The topology of {inspection.size.name} matches this machine.")
    data = {
        "vm_size": inspection.size.name,
        "mismatches": [mismatch.as_dict() for mismatch in mismatches],
        "unknown": list(unknown),
        "topology_reason": inspection.reason,
    }
    if not inspection.compared:
        lines.append("Nothing was compared.")
    good = inspection.compared and not unknown
    return Answer(BAD if mismatches else GOOD if good else UNKNOWN, "\n".join(lines), data)


def _shown(inspection: Inspection, xml_only: bool) -> Answer:
    data: dict[str, Any] = {
        "vm_size": inspection.size.name,
        "family": inspection.topology.family.name if inspection.topology else None,
        "topology": as_xml(inspection.topology) if inspection.topology else None,
        "topology_reason": inspection.reason,
        "gpus": gpu_map(inspection.topology) if inspection.topology else [],
        "environment": dict(inspection.variables),
    }
    if xml_only:
        return Answer(
            GOOD if inspection.topology else UNKNOWN, (data["topology"] or inspection.reason).rstrip("\n"), data
        )
    rows = [("GPU", "ADDRESS", "NUMA NODE", "CPUS", "ADAPTERS")]
    for gpu in data["gpus"]:
        near = " ".join(hca["name"] for hca in gpu["hcas"]) or "none"
        rows.append((str(gpu["gpu"]), gpu["busid"], str(gpu["numa_node"]), gpu["cpus"], near))
    parts = [inspection.size.name, _columns(rows) if inspection.topology else inspection.reason]
    parts.append("\n".join(f"{name}={value}" for name, value in inspection.variables.items()) or "No variables.")
    return Answer(GOOD, "\n\n".join(parts), data)


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


COMMAND = Command(
    name="nccl",
    summary="NCCL's topology file and variables: show, verify, apply at boot",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("show", "show the topology and the variables of a VM size", _SHOW, _add_show),
        Action("verify", "compare them with the machine", _VERIFY, _add_vm_size),
        Action("apply", "write the last settings again", _APPLY_AGAIN),
    ),
    default="show",
)
