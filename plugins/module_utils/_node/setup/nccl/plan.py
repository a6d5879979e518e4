# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""From facts and options to files: the pure part."""

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
from .verify import Mismatch, Verdict, verify

_INTERFACE = "NCCL_SOCKET_IFNAME"


class Refused(RuntimeError):
    """It is not done, and nothing was written; the message says why and what to do.

    :ivar mismatches: where the machine is not what its size's topology says.
    """

    def __init__(self, message: str, mismatches: tuple[Mismatch, ...] = ()) -> None:
        super().__init__(message)
        self.mismatches = mismatches


@dataclass(frozen=True)
class NcclPlan:
    """What is to be done, and what is to be told.

    :ivar changes: the files, in the order in which they are written.
    :ivar topology: what is generated; None where nothing is.
    :ivar reason: why nothing is generated; empty where something is.
    :ivar verdict: how the topology stands to the machine; None where that was not asked.
    :ivar environment: what NCCL takes from the configuration file afterwards.
    :ivar overridden: lines of others in that file that have no effect.
    :ivar replaced: which file the topology takes the place of; None where it takes none's.
    :ivar warnings: in words.
    """

    changes: tuple[FileChange, ...]
    topology: Topology | None = None
    reason: str = ""
    verdict: Verdict | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    replaced: str | None = None
    warnings: tuple[str, ...] = ()


def plan(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Return what to do. Pure.

    :raises Refused: the topology is not true of the machine, or a file is somebody else's.
    :raises conf.SettingsError: a setting that cannot be written.
    """
    if options.state != PRESENT or facts.size is None:
        return _plan_absent(options, facts)
    topology = topology_of(facts.size)
    reason = topology if isinstance(topology, str) else ""
    generated = None if isinstance(topology, str) else topology
    verdict = verify(generated, facts.machine) if generated and options.verify != IGNORE else None
    if verdict and verdict.mismatches and options.verify == STRICT:
        raise Refused(_not_true(facts.size.name, verdict), verdict.mismatches)
    omitted = bool(verdict and verdict.mismatches and options.verify == OMIT)
    if omitted:
        # As with a size that has none: a file of ours that is no longer true goes.
        generated = None
        reason = f"No topology file is written: this machine is not what the topology of {facts.size.name} says."

    topology_changes, replaced = _topology_changes(options, facts, generated)
    settings = conf.variables(facts.size, options.topology_path if generated else None, options.settings)
    if omitted and conf.TOPO_FILE not in options.settings:
        # NCCL reads no file then and finds out by itself. Without this line it would take the one that the HPC images
        # name, which is as untrue.
        settings = dict(sorted({**settings, conf.TOPO_FILE: ""}.items()))
    conf_change = _conf_change(options, facts, settings)
    in_effect = conf.effective(conf_change.after or "")
    warnings = [*_warnings(facts, verdict, in_effect), *_foreign_topology(options, facts, generated)]
    return NcclPlan(
        changes=(
            *topology_changes,
            conf_change,
            *_enroot_changes(options, facts, settings.get(conf.TOPO_FILE, ""), conf_change.after is not None),
            *_config_change(options, facts),
        ),
        topology=generated,
        reason=reason,
        verdict=verdict,
        environment=in_effect,
        overridden=tuple(conf.overridden(conf_change.after or "", settings)),
        replaced=replaced,
        warnings=tuple(warnings),
    )


def plan_settings(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Return what to do where the options are only kept for the boot. Pure."""
    return NcclPlan(changes=tuple(_config_change(options, facts)))


def outcome(made: NcclPlan, facts: NcclFacts) -> dict[str, Any]:
    """Return what is told of a plan, as the module's RETURN documents it."""
    verdict = made.verdict
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
        "verified": None if verdict is None or (verdict.unknown and not verdict.mismatches) else not verdict.mismatches,
        "mismatches": [mismatch.as_dict() for mismatch in verdict.mismatches] if verdict else [],
        "unknown": list(verdict.unknown) if verdict else [],
        "foreign_topologies": [
            {"path": one.path, "named_by": one.named_by, "known": one.known, "broken": one.broken}
            for one in facts.foreign
        ],
        "files": [change.path for change in made.changes if change.changes],
    }


def _plan_absent(options: NcclOptions, facts: NcclFacts) -> NcclPlan:
    """Everything of ours goes; what is not stays, and is named."""
    drop_ins = [
        f"{options.enroot_dir}/{name}" for name in (conf.ENROOT_MOUNTS, conf.ENROOT_ENVIRONMENT) if options.enroot_dir
    ]
    topology = facts.files[options.topology_path]
    ours = topology.before is not None and is_ours(topology.before)
    conf_change = _conf_change(options, facts, {})
    return NcclPlan(
        # What names the topology file goes before it does.
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
        # A VM that was resized to a size without one.
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
        # Right of old, but different in what the history does not tell apart: links may have been tuned by hand.
        return [_saved(file), written], f"{known}, with other attributes"
    if options.force:
        return [_saved(file), written], "a file of unknown origin"
    raise Refused(
        f"{file.path} is neither ours nor a file that the HPC images ever shipped: "
        f"choose another topology_path, or set force, which keeps a copy of it beside."
    )


def _saved(file: FileChange) -> FileChange:
    """A copy beside the file; named after its contents, so that no copy takes another's place."""
    digest = hashlib.sha256((file.before or "").encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return FileChange(f"{file.path}.{digest}.saved", None, file.before, file.mode)


def _conf_change(options: NcclOptions, facts: NcclFacts, settings: Mapping[str, str]) -> FileChange:
    file = facts.files[options.conf_path]
    before = file.before or ""
    try:
        after = conf.with_variables(before, settings)
        # A file in which nothing but our block stood was ours.
        gone = not settings and not after and without_block(before, conf.BLOCK) != before
    except BrokenBlock as error:
        raise Refused(f"{file.path}: {error} Remove the lines of that block by hand.") from None
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
        # Whatever it is called here, NCCL in a container reads this one.
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


def _not_true(size: str, verdict: Verdict) -> str:
    shown = "; ".join(map(str, verdict.mismatches[:3]))
    more = f"; and {len(verdict.mismatches) - 3} more" if len(verdict.mismatches) > 3 else ""
    return (
        f"This machine is not what the topology of {size} says, nothing was written: {shown}{more}. "
        f"Is vm_size right? Set verify to warn to write it all the same."
    )


def _warnings(facts: NcclFacts, verdict: Verdict | None, in_effect: Mapping[str, str]) -> Iterator[str]:
    for mismatch in verdict.mismatches if verdict else ():
        yield f"The topology is not true of this machine: {mismatch}."
    for foreign in facts.foreign:
        if foreign.wins:
            what = f" ({foreign.known})" if foreign.known else ""
            yield f"{foreign.named_by} sets {conf.TOPO_FILE}={foreign.path}{what}, which wins over nccl.conf."
        elif foreign.broken:
            yield f"{foreign.named_by} also names {foreign.path} ({foreign.known}); the line has no effect."
    for name, value in in_effect.items():
        problem = conf.problem_of(name, value)
        if problem:
            yield f"A line of another in the configuration file has no effect: {problem}."
    pattern = in_effect.get(_INTERFACE, "")
    if pattern and facts.interfaces and not _matches(pattern, facts.interfaces):
        present = ", ".join(facts.interfaces)
        yield f"{_INTERFACE}={pattern} matches none of this machine's interfaces ({present}): NCCL will not start."


def _foreign_topology(options: NcclOptions, facts: NcclFacts, generated: Topology | None) -> Iterator[str]:
    text = facts.files[options.topology_path].before
    if generated is None and text is not None and not is_ours(text):
        yield f"{options.topology_path} was left alone: it was not written by nccl_topology."


def _matches(pattern: str, interfaces: tuple[str, ...]) -> bool:
    """Whether NCCL finds an interface: prefixes, or whole names after ``=``; after ``^`` those that are not meant."""
    if pattern.startswith("^"):
        return True
    exact, names = pattern.startswith("="), pattern.lstrip("=").split(",")
    return any(found == name if exact else found.startswith(name) for found in interfaces for name in names)
