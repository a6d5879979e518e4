# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What of a machine and its files NCCL's configuration depends on."""

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
    """A topology file that somebody else's line names.

    :ivar path: where it lies.
    :ivar named_by: the file that names it.
    :ivar known: which file it is, e.g. ``ndv4, before 2025-02: affinity masks wrong``; None for an unknown one.
    :ivar broken: whether that is known to be a wrong one.
    :ivar wins: whether it wins over /etc/nccl.conf.
    """

    path: str
    named_by: str
    known: str | None
    broken: bool
    wins: bool


@dataclass(frozen=True)
class NcclFacts:
    """A machine, and the files as they are.

    :ivar size: facts of its VM size; None where they are not needed, for the state absent.
    :ivar name: how the size was found.
    :ivar machine: what a topology is held against.
    :ivar files: the files that may be written, unchanged as yet, by path.
    :ivar foreign: topology files that others name.
    :ivar interfaces: names of its network interfaces.
    """

    size: VmSize | None
    name: VmSizeName | None
    machine: MachineFacts
    files: Mapping[str, FileChange]
    foreign: tuple[ForeignTopology, ...] = ()
    interfaces: tuple[str, ...] = field(default_factory=tuple)


def read_facts(options: NcclOptions, ask: AskImds | None = None) -> NcclFacts:
    """Return the facts; what is read of the machine itself lies below the options' root.

    :param ask: what asks the metadata service.
    :raises ConfigError: the VM size is not told, or a settings file cannot be used.
    :raises UnknownVmSize: it is not known.
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
    """Return what is needed to keep the options for the boot; nothing of the machine.

    :raises OSError: the file cannot be read.
    """
    nothing = MachineFacts(CpuFacts(CpuSet(), (), {}), CpuSet(), ())
    return NcclFacts(None, None, nothing, {CONFIG_PATH: _unchanged(CONFIG_PATH)})


def _unchanged(path: str) -> FileChange:
    text, mode = read_file(path)
    return FileChange(path, text, text, mode if mode is not None else 0o644, mode)


def _foreign(options: NcclOptions, root: Root, conf_text: str) -> Iterator[ForeignTopology]:
    named = []
    # A broken block is refused when the file is planned, with its name.
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
