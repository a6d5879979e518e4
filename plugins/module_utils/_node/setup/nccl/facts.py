# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The facts of a machine and its files that NCCL's configuration depends on."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...machine.config import FOLDER
from ...machine.cpuset import CpuSet
from ...machine.numa import CpuFacts
from ...machine.root import Root
from ...machine.vm_size import AskImds, VmSizeName, size_facts
from ...sku import VmSize
from ..managed_file import BrokenBlock, FileChange, read_file
from . import conf
from .history import recognise
from .options import ABSENT, NcclOptions
from .verify import MachineFacts, read_machine

CONFIG_PATH = f"{FOLDER}/nccl.json"
_ENVIRONMENT = "/etc/environment"
_INTERFACES = "/sys/class/net"
_ASSIGNMENT = re.compile(rf"^\s*(?:export\s+)?{conf.TOPO_FILE}=[\"']?([^\"'\s]*)", re.MULTILINE)


@dataclass(frozen=True)
class ForeignTopology:
    """A topology file that a line of somebody else sets.

    :ivar path: its path.
    :ivar named_by: the file with that line.
    :ivar known: which file it is, e.g. ``ndv4, before 2025-02: affinity masks wrong``; None for an unknown one.
    :ivar broken: whether it is known to be wrong.
    :ivar wins: whether that line overrides /etc/nccl.conf.
    """

    path: str
    named_by: str
    known: str | None
    broken: bool
    wins: bool


@dataclass(frozen=True)
class NcclFacts:
    """A machine, and its files before the change.

    :ivar size: facts of its VM size; None if not needed, for the state absent.
    :ivar name: how the size was found.
    :ivar machine: the hardware to compare a topology with.
    :ivar files: files that may be written, without changes, by path.
    :ivar foreign: topology files that others set.
    :ivar interfaces: names of its network interfaces.
    """

    size: VmSize | None
    name: VmSizeName | None
    machine: MachineFacts
    files: Mapping[str, FileChange]
    foreign: tuple[ForeignTopology, ...] = ()
    interfaces: tuple[str, ...] = field(default_factory=tuple)


def read_facts(options: NcclOptions, ask: AskImds | None = None) -> NcclFacts:
    """Return the facts; the machine itself is read below the options' root.

    :param ask: function that queries the metadata service.
    :raises ConfigError: the VM size cannot be found out, or a settings file is invalid.
    :raises UnknownVmSize: the VM size is unknown.
    :raises OSError: one of the files cannot be read.
    """
    root = Root(options.root)
    size, name = (None, None) if options.state == ABSENT else size_facts(root, options.vm_size, options.vm_sizes, ask)
    paths = [options.topology_path, options.conf_path, CONFIG_PATH]
    if options.enroot_dir:
        paths += [f"{options.enroot_dir}/{name}" for name in (conf.ENROOT_MOUNTS, conf.ENROOT_ENVIRONMENT)]
    for option in ("topology_path", "conf_path"):
        conf.check_file(option, getattr(options, option))
    files = {path: _unchanged(path) for path in paths}
    return NcclFacts(
        size,
        name,
        read_machine(root),
        files,
        tuple(_foreign(options, root, files[options.conf_path].before or "")),
        tuple(root.entries(_INTERFACES)),
    )


def read_settings() -> NcclFacts:
    """Return what is needed to save the options for the next boot, without facts of the machine.

    :raises OSError: the file cannot be read.
    """
    nothing = MachineFacts(CpuFacts(CpuSet(), (), {}), CpuSet(), ())
    return NcclFacts(None, None, nothing, {CONFIG_PATH: _unchanged(CONFIG_PATH)})


def _unchanged(path: str) -> FileChange:
    text, mode = read_file(path)
    return FileChange(path, text, text, mode if mode is not None else 0o644, mode)


def _foreign(options: NcclOptions, root: Root, conf_text: str) -> Iterator[ForeignTopology]:
    named = []
    # A broken block is refused later, when the change of the file is planned.
    with contextlib.suppress(BrokenBlock):
        named += [(path, options.conf_path, False) for path in conf.named_outside(conf_text, conf.TOPO_FILE)]
    named += [(path, _ENVIRONMENT, True) for path in _ASSIGNMENT.findall(root.text(_ENVIRONMENT) or "")]
    folder = f"{options.enroot_dir}/{conf.ENROOT_ENVIRONMENT.partition('/')[0]}"
    for entry in Root().entries(folder) if options.enroot_dir else ():
        path = f"{folder}/{entry}"
        if entry.endswith(".env") and path != f"{options.enroot_dir}/{conf.ENROOT_ENVIRONMENT}":
            named += [(found, path, True) for found in _ASSIGNMENT.findall(Root().text(path) or "")]
    for path, named_by, wins in named:
        known = recognise(root.text(path) or "") if path else None
        yield ForeignTopology(path, named_by, str(known) if known else None, bool(known and known.broken), wins)
