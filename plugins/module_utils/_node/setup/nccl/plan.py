# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Plan the files from facts and options. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...forms import Malformed, unquoted_path
from ...machine.config import as_config
from ..managed_file import BrokenBlock, FileChange, without_block
from . import conf
from .elements import NoTopology, meaning, parse
from .facts import CONFIG_PATH, NcclFacts
from .history import is_ours, recognise
from .options import CONF_PATH, IGNORE, OMIT, PRESENT, STRICT, NcclOptions
from .topology import Topology, as_element, as_xml, gpu_map, topology_of
from .verify import Comparison, Mismatch, verify

_INTERFACE = "NCCL_SOCKET_IFNAME"


class Refused(RuntimeError):
    """The plan is refused, and nothing was written; the message says why and what to do.

    :ivar mismatches: differences between the machine and its VM size's topology.
    """

    def __init__(self, message: str, mismatches: tuple[Mismatch, ...] = ()) -> None:
        super().__init__(message)
        self.mismatches = mismatches


@dataclass(frozen=True)
class NcclPlan:
    """What has to be done, and what to report.

    :ivar changes: the files, in the order in which they are written.
    :ivar topology: the generated topology; None if none is generated.
    :ivar reason: why none is generated; empty if one is.
    :ivar comparison: the comparison of topology and machine; None if it was not requested.
    :ivar environment: the variables that NCCL reads from the configuration file afterwards.
    :ivar overridden: lines of others in that file that have no effect.
    :ivar replaced: which file the topology replaces; None if it replaces none.
    :ivar warnings: in words.
    """

    changes: tuple[FileChange, ...]
    topology: Topology | None = None
    reason: str = ""
    comparison: Comparison | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    replaced: str | None = None
    warnings: tuple[str, ...] = ()


def plan(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Return what to do. Pure.

    :raises Refused: the topology does not match the machine, or a file belongs to somebody else.
    :raises conf.SettingsError: a setting cannot be written.
    """
    if options.state != PRESENT or facts.size is None:
        return _plan_absent(options, facts)
    topology = topology_of(facts.size)
    reason = topology if isinstance(topology, str) else ""
    generated = None if isinstance(topology, str) else topology
    comparison = verify(generated, facts.machine) if generated and options.verify != IGNORE else None
    if comparison and comparison.mismatches and options.verify == STRICT:
        raise Refused(_not_true(facts.size.name, comparison), comparison.mismatches)
    omitted = bool(comparison and comparison.mismatches and options.verify == OMIT)
    if omitted:
        # As for a size without a topology: our file is removed if it does not match any more.
        generated = None
        reason = f"No topology file is written, because this machine does not match the topology of {facts.size.name}."

    topology_changes, replaced = _topology_changes(options, facts, generated)
    settings = conf.variables(facts.size, options.topology_path if generated else None, options.settings)
    if omitted and conf.TOPO_FILE not in options.settings:
        # Without a file, NCCL detects the topology. Without this line, it would use the file that the HPC images set,
        # which does not match either.
        settings = dict(sorted({**settings, conf.TOPO_FILE: ""}.items()))
    conf_change = _conf_change(options, facts, settings)
    in_effect = conf.effective(conf_change.after or "")
    warnings = [*_warnings(facts, comparison, in_effect), *_foreign_topology(options, facts, generated)]
    return NcclPlan(
        changes=(
            *topology_changes,
            conf_change,
            *_enroot_changes(options, facts, settings.get(conf.TOPO_FILE, ""), conf_change.after is not None),
            *_config_change(options, facts),
        ),
        topology=generated,
        reason=reason,
        comparison=comparison,
        environment=in_effect,
        overridden=tuple(conf.overridden(conf_change.after or "", settings)),
        replaced=replaced,
        warnings=tuple(warnings),
    )


def plan_settings(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Return what to do if the options are only saved for the next boot. Pure."""
    return NcclPlan(changes=tuple(_config_change(options, facts)))


def outcome(made: NcclPlan, facts: NcclFacts) -> dict[str, Any]:
    """Return the result of a plan, as the module's RETURN documents it."""
    comparison = made.comparison
    return {
        "vm_size": facts.size.name if facts.size else None,
        "vm_size_from": facts.name.origin if facts.name else None,
        "family": made.topology.family.name if made.topology else None,
        "topology": as_xml(made.topology) if made.topology else None,
        "topology_reason": made.reason,
        "gpus": gpu_map(made.topology) if made.topology else [],
        "environment": dict(made.environment),
        "overridden": list(made.overridden),
        "replaced": made.replaced,
        "verified": None
        if comparison is None or (comparison.unknown and not comparison.mismatches)
        else not comparison.mismatches,
        "mismatches": [mismatch.as_dict() for mismatch in comparison.mismatches] if comparison else [],
        "unknown": list(comparison.unknown) if comparison else [],
        "foreign_topologies": [
            {
                "path": one.path,
                "named_by": one.named_by,
                "known": one.known,
                "broken": one.broken,
                "wins": one.wins,
            }
            for one in facts.foreign
        ],
        "files": [change.path for change in made.changes if change.changes],
    }


def _plan_absent(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Remove everything that we wrote; leave and report the rest."""
    drop_ins = [
        f"{options.enroot_dir}/{name}" for name in (conf.ENROOT_MOUNTS, conf.ENROOT_ENVIRONMENT) if options.enroot_dir
    ]
    topology = facts.files[options.topology_path]
    ours = topology.before is not None and is_ours(topology.before)
    conf_change = _conf_change(options, facts, {})
    return NcclPlan(
        # Remove references to the topology file before the file.
        changes=(
            *(replace(facts.files[path], after=None) for path in drop_ins),
            conf_change,
            *([replace(topology, after=None)] if ours else []),
            *_config_change(options, facts),
        ),
        environment=conf.effective(conf_change.after or ""),
        warnings=tuple(_foreign_topology(options, facts, None)),
    )


def _topology_changes(
    options: NcclOptions, facts: NcclFacts, generated: Topology | None
) -> tuple[list[FileChange], str | None]:
    file = facts.files[options.topology_path]
    if generated is None:
        # The VM may have been resized to a size without a topology.
        ours = file.before is not None and is_ours(file.before)
        return ([replace(file, after=None)] if ours else []), None
    written = replace(file, after=as_xml(generated), mode=0o644)
    if file.before is None or not file.before.strip():
        return [written], None
    try:
        if meaning(parse(file.before)) == meaning(as_element(generated)):
            return [replace(file, mode=0o644)], None
    except NoTopology:
        pass
    known = recognise(file.before)
    if is_ours(file.before) or (known and known.broken):
        return [written], str(known) if known else "an earlier file of hpcai.azure"
    if known:
        # A right file, but with attributes that the history does not know: links may have been tuned manually.
        return [_saved(file), written], f"{known}, with other attributes"
    if options.force:
        return [_saved(file), written], "a file of unknown origin"
    raise Refused(
        f"{file.path} is neither ours nor a file that the HPC images ever shipped. "
        f"Choose another topology_path, or set force, which keeps a copy of the file next to it."
    )


def _saved(file: FileChange) -> FileChange:
    """Return a copy next to the file, named after its content, so that no copy overwrites another."""
    digest = hashlib.sha256((file.before or "").encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return FileChange(f"{file.path}.{digest}.saved", None, file.before, file.mode)


def _conf_change(options: NcclOptions, facts: NcclFacts, settings: Mapping[str, str]) -> FileChange:
    file = facts.files[options.conf_path]
    before = file.before or ""
    try:
        after = conf.with_variables(before, settings)
        # A file that contained only our block was created by us.
        gone = not settings and not after and without_block(before, conf.BLOCK) != before
    except BrokenBlock as error:
        raise Refused(f"{file.path}: {error} Remove the lines of that block manually.") from None
    if gone or (file.before is None and not after):
        return replace(file, after=None)
    return replace(file, after=after, mode=0o644 if settings else file.mode)


def _enroot_changes(options: NcclOptions, facts: NcclFacts, topology_path: str, has_conf: bool) -> Iterator[FileChange]:
    if not options.enroot_dir:
        return
    mounted = {}
    if topology_path:
        try:
            mounted[unquoted_path(f"settings.{conf.TOPO_FILE}", topology_path)] = topology_path
        except Malformed as error:
            raise Refused(str(error)) from None
    if has_conf:
        # Whatever its path on the host, NCCL in a container reads this path.
        mounted[options.conf_path] = CONF_PATH
    texts = {
        conf.ENROOT_MOUNTS: conf.enroot_mounts(mounted) if mounted else None,
        conf.ENROOT_ENVIRONMENT: conf.enroot_environment(topology_path) if topology_path else None,
    }
    for name, text in texts.items():
        yield replace(facts.files[f"{options.enroot_dir}/{name}"], after=text, mode=0o644)


def _config_change(options: NcclOptions, facts: NcclFacts) -> Iterator[FileChange]:
    persistent = options.root == "/" if options.persistent is None else options.persistent
    if options.root != "/" and not persistent:
        return
    after = as_config(options.remembered()) if persistent else None
    yield replace(facts.files[CONFIG_PATH], after=after, mode=0o644)


def _not_true(size: str, comparison: Comparison) -> str:
    shown = "; ".join(map(str, comparison.mismatches[:3]))
    more = f"; and {len(comparison.mismatches) - 3} more" if len(comparison.mismatches) > 3 else ""
    return (
        f"This machine does not match the topology of {size}, so nothing was written: {shown}{more}. "
        f"Check vm_size, or set verify to warn to write the file anyway."
    )


def _warnings(facts: NcclFacts, comparison: Comparison | None, in_effect: Mapping[str, str]) -> Iterator[str]:
    for mismatch in comparison.mismatches if comparison else ():
        yield f"The topology does not match this machine: {mismatch}."
    for foreign in facts.foreign:
        if foreign.wins:
            what = f" ({foreign.known})" if foreign.known else ""
            yield f"{foreign.named_by} sets {conf.TOPO_FILE}={foreign.path}{what}, which overrides nccl.conf."
        elif foreign.broken:
            yield f"{foreign.named_by} also names {foreign.path} ({foreign.known}); the line has no effect."
    for name, value in in_effect.items():
        problem = conf.problem_of(name, value)
        if problem:
            yield f"A line in the configuration file, outside of our block, has no effect: {problem}."
    pattern = in_effect.get(_INTERFACE, "")
    if pattern and facts.interfaces and not _matches(pattern, facts.interfaces):
        present = ", ".join(facts.interfaces)
        yield f"{_INTERFACE}={pattern} matches none of this machine's interfaces ({present}): NCCL will not start."


def _foreign_topology(options: NcclOptions, facts: NcclFacts, generated: Topology | None) -> Iterator[str]:
    text = facts.files[options.topology_path].before
    if generated is None and text is not None and not is_ours(text):
        yield f"{options.topology_path} was left unchanged, because nccl_topology did not write it."


def _matches(pattern: str, interfaces: tuple[str, ...]) -> bool:
    """Whether NCCL finds an interface: prefixes, full names after ``=``, or excluded names after ``^``."""
    if pattern.startswith("^"):
        return True
    exact, names = pattern.startswith("="), pattern.lstrip("=").split(",")
    return any(found == name if exact else found.startswith(name) for found in interfaces for name in names)
