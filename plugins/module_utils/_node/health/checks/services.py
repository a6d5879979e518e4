# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Services: the node runs the services that its functions in the cluster and its devices need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...machine.cluster_settings import CONTROLLER, cluster_of
from ...machine.unit_state import UnitState, read_units
from ..applies import has_amd_gpus
from ..check import (
    BOOT,
    EPILOG,
    FAIL,
    OBSERVE,
    PERIODIC,
    PROLOG,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)

_FABRIC, _PERSISTENCE = "nvidia-fabricmanager", "nvidia-persistenced"
_IF_INSTALLED = ("chrony", "chronyd")
"""One service with two names, depending on the distribution."""
_ON_ITS_WAY = ("activating", "reloading", "deactivating")
_COMING = "on_their_way"
_COMING_S = 120.0
"""How long a service may start or stop, in seconds; systemd allows 90 s. Runs are not counted instead, because a prolog
and an epilog can both run within one restart."""


def _measure(context: Context) -> Answer:
    needed = _required(context)
    optional = _optional(context)
    if not needed and not optional:
        return Answer(skipped="this machine belongs to no cluster, and needs no known service")
    states = read_units([*needed, *optional], context.run)
    known = {name: state for name, state in states.items() if state.load != "unknown"}
    if not known:
        hint = "Try 'systemctl status'"
        return Answer(findings=(Finding(UNKNOWN, "cannot get the state of services from systemd", hint=hint),))
    kept = context.history.get(_COMING)
    before = kept if isinstance(kept, dict) else {}
    coming = {name: before.get(name, context.now) for name, state in known.items() if state.active in _ON_ITS_WAY}
    context.history.keep(_COMING, coming)
    overdue = [name for name, since in coming.items() if context.now - since >= _COMING_S]
    findings = [*_judge(needed, known, overdue), *_judge_optional(optional, known)]
    if context.tier not in (PROLOG, EPILOG):
        findings += _failed(context, states)
    running = [name for name, state in known.items() if state.is_active]
    return Answer(
        good=f"{', '.join(running)} run",
        readings=tuple(Reading("service", state.words, device=name) for name, state in known.items()),
        findings=tuple(findings),
        limit=f"active: {', '.join(needed)}",
    )


def _required(context: Context) -> dict[str, str]:
    """Return the services that must run, with what needs them."""
    option = context.option
    cluster, size = cluster_of(context.root), context.size
    needed: dict[str, str] = {}
    if cluster and (cluster.is_compute or CONTROLLER in cluster.functions):
        needed["munge"] = "Slurm"
    # At boot, slurmd waits for these checks.
    if cluster and cluster.is_compute and context.tier != BOOT:
        needed["slurmd"] = "jobs"
    if cluster and CONTROLLER in cluster.functions:
        needed["slurmctld"] = "the cluster"
    if size and size.nvswitch:
        needed[_FABRIC] = "the NVSwitches"
    needed.update({str(name): "the site" for name in option(SERVICES, "needed")})
    return {name: who for name, who in needed.items() if name not in option(SERVICES, "not_needed")}


def _optional(context: Context) -> list[str]:
    """Return the services that should run if they are installed."""
    size = context.size
    nvidia = size is not None and size.gpu_count and not has_amd_gpus(size)
    return [*([_PERSISTENCE] if nvidia else []), *(_IF_INSTALLED if cluster_of(context.root) else ())]


def _judge(needed: Mapping[str, str], states: Mapping[str, UnitState], overdue: Sequence[str]) -> Iterator[Finding]:
    for name, who in needed.items():
        state = states.get(name)
        if state is None:
            yield Finding(
                UNKNOWN, f"cannot get the state of {name} from systemd", name, f"Try 'systemctl status {name}'"
            )
        elif state.active in _ON_ITS_WAY and not state.is_active and name not in overdue:
            yield Finding(WARN, f"{name} is {state.words}", name, f"It fails if it takes more than {_COMING_S:g} s")
        elif not state.is_active:
            words = f"{name} is {state.words}, but {who} {'need' if who.endswith('s') else 'needs'} it"
            hint = f"Find the cause with 'journalctl -b -u {name}'; then 'systemctl restart {name}'"
            yield Finding(FAIL, words, name, hint)


def _judge_optional(optional: Sequence[str], states: Mapping[str, UnitState]) -> Iterator[Finding]:
    for name in optional:
        state = states.get(name)
        if state is not None and state.load == "loaded" and not state.is_active and state.active not in _ON_ITS_WAY:
            yield Finding(WARN, f"{name} is {state.words}", name, f"Find the cause with 'journalctl -b -u {name}'")


def _failed(context: Context, asked: Mapping[str, UnitState]) -> Iterator[Finding]:
    """Yield a warning for other units that failed."""
    command = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full"]
    answer = context.run(command)
    if answer.rc != 0:
        yield Finding(UNKNOWN, "cannot get the failed units from systemd", hint="Try 'systemctl --failed'")
        return
    names = [line.split()[0] for line in answer.stdout.splitlines() if line.strip()]
    others = [name for name in names if name.removesuffix(".service") not in asked]
    if others:
        words = f"{len(others)} {'unit' if len(others) == 1 else 'units'} failed: {', '.join(others)}"
        yield Finding(WARN, words, hint="See 'systemctl --failed'; 'systemctl reset-failed' clears the list")


SERVICES = Check(
    name="services",
    title="Services",
    explain=(
        "These services run: munge on compute nodes and the controller, slurmd on compute nodes (except in the tier "
        "boot, which runs before it), slurmctld on the controller, the fabric manager on nodes with NVSwitches, and "
        "the services that the site lists in the option needed. Those in the option not_needed need not run. "
        "The check warns about other units that failed, and if chrony or NVIDIA's persistence daemon is installed but "
        "does not run."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure,
    action=OBSERVE,
    options={"needed": [], "not_needed": []},
)
