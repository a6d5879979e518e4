# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Look at a node: is what its topology claims true, and is what was configured still there? Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.vm_size import AskImds, size_facts
from ...sku import VmSize
from . import conf
from .elements import NoTopology, meaning, parse
from .history import recognise
from .options import Options
from .topology import Topology, as_element, topology_of
from .verify import Mismatch, Verdict, read_machine, verify


@dataclass(frozen=True)
class Inspection:
    """What was seen.

    :ivar size: the VM size.
    :ivar topology: what belongs to it; None where nothing is generated.
    :ivar reason: why nothing is; empty where something is.
    :ivar variables: what the configuration file should set.
    :ivar verdict: what is not as it should be, and what could not be told.
    :ivar compared: whether anything was: a topology, or variables that somebody asked for.
    """

    size: VmSize
    topology: Topology | None
    reason: str
    variables: Mapping[str, str]
    verdict: Verdict
    compared: bool


def inspect(options: Options, configured: bool, ask: AskImds | None = None) -> Inspection:
    """Look at the machine below the options' root; their paths are paths of that machine.

    :param configured: whether somebody asked for these files, so that a missing one is wrong.
    :param ask: what asks the metadata service.
    :raises ConfigError: the VM size is not told.
    :raises UnknownVmSize: it is not known.
    """
    root = Root(options.root)
    size, _name = size_facts(root, options.vm_size, options.vm_sizes, ask)
    topology = topology_of(size)
    generated = None if isinstance(topology, str) else topology
    variables = conf.variables(size, options.topology_path if generated else None, options.settings)
    of_machine = verify(generated, read_machine(root)) if generated else Verdict((), ())
    of_files = _files(options, root, generated, variables, configured)
    return Inspection(
        size,
        generated,
        topology if isinstance(topology, str) else "",
        variables,
        Verdict((*of_machine.mismatches, *of_files), of_machine.unknown),
        generated is not None or (configured and bool(variables)),
    )


def _files(
    options: Options, root: Root, topology: Topology | None, variables: Mapping[str, str], configured: bool
) -> Iterator[Mismatch]:
    text = root.text(options.topology_path)
    if topology and (configured or text is not None) and not _says(text, topology):
        known = recognise(text or "")
        found = "none" if text is None else str(known or "a file of unknown origin")
        yield Mismatch(options.topology_path, "file", f"the topology of {topology.size}", found)
    in_effect = conf.effective(root.text(options.conf_path) or "")
    for name, value in variables.items() if configured else ():
        if in_effect.get(name) != value:
            yield Mismatch(f"{name} in {options.conf_path}", "variable", value, in_effect.get(name, "not set"))


def _says(text: str | None, topology: Topology) -> bool:
    try:
        return text is not None and meaning(parse(text)) == meaning(as_element(topology))
    except NoTopology:
        return False
