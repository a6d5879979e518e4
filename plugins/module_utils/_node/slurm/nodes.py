# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's nodes: read their records, take nodes out of scheduling, and return only those that we took out."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.run import Run, must
from .hostlist import compress

LONGEST_REASON = 200
"""Maximum length of a reason: it has to fit on a line of sinfo and of a journal."""


def as_reason(text: str, longest: int = LONGEST_REASON) -> str:
    """Return the text in a form that Slurm's tools show completely: one short line of ASCII without double quotes."""
    line = " ".join(text.replace('"', "'").split()).encode("ascii", "replace").decode()
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= longest else f"{line[: longest - 3].rstrip()}..."


def epoch(utc: str) -> float | None:
    """Return a time that Slurm printed in seconds since the epoch; commands run in UTC (``machine.run``).

    None if it is no time: Slurm prints ``None`` or ``Unknown``, and free text of a record may look like a time, such as
    2026-13-45.
    """
    try:
        return float(calendar.timegm(time.strptime(utc, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return None


_NAME = re.compile(r"NodeName=(\S+) ")
_FREE = re.compile(r" (?:Reason|Comment|Extra|InstanceId|InstanceType|ReservationName)=")
# The reason ends at Slurm's "[user@time]". A reason from slurm.conf has none; it ends at the next field that
# slurm_sprint_node_table (node_info.c) may print after it.
_REASON = re.compile(
    r" Reason=(?P<text>.*?)(?: \[[^\s@\]]+@(?:\d{4}-\d\d-\d\dT[\d:]+|Unknown)\]"
    r"| +(?:Comment|Extra|InstanceId|InstanceType|ReservationName)=| *$)"
)
_GIVEN = re.compile(r" \[[^\s@\]]+@(\d{4}-\d\d-\d\dT[\d:]{8}|Unknown)\]")


@dataclass(frozen=True)
class NodeRecord:
    """A node's record.

    :ivar fields: the part that only slurmctld writes.
    :ivar texts: the part from the first free text on; empty if there is none.
    """

    fields: str
    texts: str

    def field(self, key: str) -> str:
        """Return one of slurmctld's own fields, such as NodeAddr; empty if it is not shown."""
        found = re.search(rf" {re.escape(key)}=(\S+)", self.fields)
        return found[1] if found else ""

    @property
    def reason(self) -> str:
        """The reason, without Slurm's ``[user@time]``."""
        found = _REASON.match(self.texts)
        return found["text"] if found else ""

    @property
    def reason_given(self) -> str:
        """When the reason was given, as Slurm prints it; empty if not shown."""
        found = _GIVEN.findall(self.texts) if self.texts.startswith(" Reason=") else []
        return found[-1] if found and found[-1] != "Unknown" else ""

    @property
    def after_reason(self) -> str:
        """The comment, Extra and what follows; never a part of the reason, which may contain messages of checks."""
        if not self.texts.startswith(" Reason="):
            return self.texts
        given = list(_GIVEN.finditer(self.texts))
        if given:
            return self.texts[given[-1].end() :]
        found = _FREE.search(self.texts, 1)
        return self.texts[found.start() :] if found else ""


def parse_records(shown: str) -> Mapping[str, NodeRecord | None]:
    """Split the output of ``scontrol --oneliner show nodes`` so that free text is never read as a field.

    A reason, a comment or Extra may contain anything, also `` State=IDLE`` or a line break and another node's record.
    slurm_sprint_node_table (node_info.c) prints them after all fields that slurmctld makes itself. A name that occurs
    twice gets None, because free text may forge a record.
    """
    found: dict[str, NodeRecord | None] = {}
    for line in shown.splitlines():
        name = _NAME.match(line)
        if name:
            free = _FREE.search(line)
            end = free.start() if free else len(line)
            found[name[1]] = None if name[1] in found else NodeRecord(line[:end], line[end:])
    return found


OUR_PREFIX = "hpcai:"
"""Start of each reason that this collection gives a node; other reasons belong to somebody else."""

NO_INSTANCE = f"{OUR_PREFIX} no such instance"
"""Reason of a spare node, which is declared so that a later machine can join automatically."""
PLACEHOLDER_ADDRESS = "127.0.0.1"
"""Address of a spare node until its machine reports its own. An unknown name would delay slurmctld's start, and an
address that does not answer would delay each of its pings; this one refuses connections at once."""

# States in which a node is out of scheduling, for a reason that stays until somebody resumes it (slurm.conf(5)).
_OUT = ("DRAIN", "DRAINING", "DRAINED", "DOWN", "FAIL", "FAILING")
_SINFO_FLAGS = "*~#!%$@^+-"
"""One of these follows a state of sinfo: not responding, powered down and so on (sinfo(1), node state codes)."""
_NOT_ANSWERING = ("NOT_RESPONDING", "UNKNOWN")
# Reasons that slurmctld itself gives when it sets a node down (node_mgr.c, ping_nodes.c, power_save.c).
_SLURMCTLDS_REASONS = ("Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached")
# Reasons when a node registers with less than configured (node_mgr.c, gres.c); our own reason adds the figures.
_LESS_THAN_CONFIGURED = ("Low socket*core*thread count", "Low CPUs", "Low RealMemory", "Low TmpDisk", "gres/")
HARDWARE = f"{OUR_PREFIX} hardware:"
"""Start of the reason of a node that lacks configured hardware."""
SLURMD_WAITS = f"{OUR_PREFIX} slurmd:"
"""Start of the reason of a node whose slurmd must be restarted, but not while jobs run there."""
TWICE = "slurmctld shows this node twice: remove the line break from the comment or reason of the node before it"
"""Reason of a node whose record cannot be trusted. It has no prefix, so the node is left unchanged."""


def is_out(state: str) -> bool:
    """Whether a node in this state is drained, down or failed; also as sinfo prints it: small, and with a flag."""
    return state.upper().rstrip(_SINFO_FLAGS) in _OUT


@dataclass(frozen=True)
class NodeState:
    """A node in slurmctld.

    :ivar states: base state and flags, upper case, e.g. ``("IDLE", "DRAIN")``.
    :ivar reason: the reason as given, without Slurm's ``[user@time]``; empty if there is none.
    :ivar address: NodeAddr: the address of its slurmd.
    :ivar host_name: NodeHostName: the host name of its machine.
    :ivar slurmd_started: when its slurmd started, as Slurm prints it; changes with each start.
    """

    name: str
    states: tuple[str, ...]
    reason: str
    address: str = ""
    host_name: str = ""
    slurmd_started: str = ""

    @property
    def out(self) -> bool:
        """Whether the node is drained, down or failed."""
        return any(is_out(state) for state in self.states)

    @property
    def answers(self) -> bool:
        """Whether the node's slurmd has registered and answers."""
        # slurmctld does not flag a node as not responding if it was set down before it ever registered. Registering
        # removes the reason.
        is_spare = "DOWN" in self.states and self.reason.startswith(NO_INSTANCE)
        return not is_spare and not any(state in _NOT_ANSWERING for state in self.states)

    @property
    def drained(self) -> bool:
        """Whether the node was drained; a drain does not end when the node registers."""
        return any("DRAIN" in state for state in self.states)

    @property
    def sets_own_address(self) -> bool:
        """Whether it is declared as a node whose machine reports its own address."""
        return "CLOUD" in self.states

    @property
    def is_nobodys_decision(self) -> bool:
        """Whether it has no reason, a reason from slurmctld itself, or the reason of a node without a machine."""
        return not self.reason or self.reason.startswith((NO_INSTANCE, *_SLURMCTLDS_REASONS))

    def may_be_called_unfit(self, prefix: str) -> bool:
        """Whether the node can get a reason that says what it lacks, because no person gave it another one."""
        ours = (prefix, HARDWARE, SLURMD_WAITS, *_LESS_THAN_CONFIGURED)
        return not self.out or self.is_nobodys_decision or self.reason.startswith(ours)


@dataclass(frozen=True)
class Plan:
    """What to do.

    :ivar drain: nodes to drain.
    :ivar resume: nodes to resume.
    :ivar left_out: nodes that should be resumed but are out for somebody else's reason, with the reason.
    :ivar missing: nodes that slurmctld does not know.
    :ivar unfit: nodes to drain because they lack something, by reason.
    """

    drain: tuple[str, ...]
    resume: tuple[str, ...]
    left_out: Mapping[str, str]
    missing: tuple[str, ...]
    unfit: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def parse_nodes(shown: str) -> dict[str, NodeState]:
    """Parse the output of ``scontrol --oneliner show nodes``."""
    nodes: dict[str, NodeState] = {}
    for name, text in parse_records(shown).items():
        if text is None:
            nodes[name] = NodeState(name, ("UNKNOWN", "DRAIN"), TWICE)
        elif text.field("State"):
            # The star is the short form of NOT_RESPONDING in older releases.
            states = text.field("State").upper().replace("*", "+NOT_RESPONDING")
            flags = tuple(flag for flag in states.split("+") if flag)
            nodes[name] = NodeState(
                name,
                flags,
                text.reason,
                text.field("NodeAddr"),
                text.field("NodeHostName"),
                text.field("SlurmdStartTime"),
            )
    return nodes


def plan(
    nodes: Mapping[str, NodeState],
    keep_out: Iterable[str],
    put_to_work: Iterable[str],
    prefix: str,
    judged: Mapping[str, str | None] | None = None,
) -> Plan:
    """Return which nodes to drain and to resume. Pure.

    A node in ``keep_out`` that is already drained keeps its reason, whoever gave it; so does a node that somebody set
    down. A node in ``put_to_work`` is resumed if its reason starts with ``prefix``.

    :param judged: nodes in ``put_to_work`` that were checked, each with the reason why it should get no jobs, or None
        if it is as configured. Then a reason from an earlier check is removed.
    """
    drain: list[str] = []
    resume: list[str] = []
    left_out: dict[str, str] = {}
    unfit: dict[str, tuple[str, ...]] = {}
    judged = judged or {}
    drain_names, resume_names = list(keep_out), list(put_to_work)
    for name in drain_names:
        if name in nodes and not _is_out_by_decision(nodes[name], prefix):
            drain.append(name)
    for name in resume_names:
        node, reason = nodes.get(name), judged.get(name)
        if node is None or (not node.out and not reason):
            continue
        if reason and node.may_be_called_unfit(prefix):
            if not (node.drained and node.reason == reason):
                unfit[reason] = (*unfit.get(reason, ()), name)
        elif node.reason.startswith(prefix) or (name in judged and node.reason.startswith((HARDWARE, SLURMD_WAITS))):
            resume.append(name)
        elif node.drained or node.answers:
            left_out[name] = node.reason
    missing = tuple(name for name in [*drain_names, *resume_names] if name not in nodes)
    return Plan(tuple(drain), tuple(resume), left_out, missing, unfit)


def absent_to_set_down(nodes: Mapping[str, NodeState], absent: Iterable[str]) -> tuple[str, ...]:
    """Return which spare nodes could get jobs although they have no machine, or seem to have a faulty one. Pure.

    A node with another address than the placeholder was reported by its machine. It is left unchanged, even if the
    inventory does not have it, because the inventory may be older than the machine. Only when slurmctld has set it down
    because it does not answer, the machine counts as deleted. If it is back nevertheless, it registers at its address.
    """
    return tuple(name for name in absent if name in nodes and _is_idle_or_lost(nodes[name]))


def _is_idle_or_lost(node: NodeState) -> bool:
    if node.address == PLACEHOLDER_ADDRESS:
        return not node.out
    return "DOWN" in node.states and not node.drained and node.reason.startswith(_SLURMCTLDS_REASONS[0])


def retired(nodes: Mapping[str, NodeState], absent: Iterable[str]) -> tuple[str, ...]:
    """Return which spare nodes are still drained for the retirement of their machine, which is gone. Pure.

    Such a machine joined alone, and was retired before a run of site.yml declared its node.
    """
    return tuple(name for name in absent if name in nodes and _was_retired(nodes[name]))


def _was_retired(node: NodeState) -> bool:
    return node.address != PLACEHOLDER_ADDRESS and node.drained and node.reason.startswith(f"{OUR_PREFIX} retire:")


def former(nodes: Mapping[str, NodeState], absent: Iterable[str]) -> tuple[str, ...]:
    """Return which spare nodes slurmctld still has with a former machine: their instances are gone. Pure."""
    return tuple(name for name in absent if name in nodes and not nodes[name].sets_own_address)


def forget_machines(names: Sequence[str], run: Run) -> None:
    """Remove what slurmctld would otherwise keep of former machines: their addresses, drains and reasons.

    Azure may give an instance id again. Without this, slurmctld restores the old address for the new CLOUD node
    (measured with 22.05.8 and 24.11.5), and the next machine of this name would be drained.

    :raises CommandFailed: slurmctld refused.
    """
    if names:
        chosen = compress(names)
        # 24.11 undrains a node that never registered, and reports an error.
        run(["scontrol", "update", f"NodeName={chosen}", "State=UNDRAIN"])
        set_down(names, NO_INSTANCE, run)
        addresses = ",".join([PLACEHOLDER_ADDRESS] * len(names))
        must(run(["scontrol", "update", f"NodeName={chosen}", f"NodeAddr={addresses}", f"NodeHostName={chosen}"]))


def _is_out_by_decision(node: NodeState, prefix: str) -> bool:
    """Whether the node is out by a decision, ours or somebody else's; draining it would only hide the reason."""
    return node.drained or (node.out and not node.is_nobodys_decision and not node.reason.startswith(prefix))


SHOW_NODES = ("scontrol", "--oneliner", "show", "nodes")
"""The command that prints what ``parse_records`` and ``parse_nodes`` read."""


def show_nodes(run: Run) -> str:
    """Return the records of all nodes as slurmctld shows them, for ``parse_records`` and ``parse_nodes``.

    :raises CommandFailed: slurmctld does not answer.
    """
    return must(run(list(SHOW_NODES))).stdout


def read_nodes(run: Run) -> dict[str, NodeState]:
    """Read all nodes from slurmctld.

    :raises CommandFailed: slurmctld does not answer.
    """
    return parse_nodes(show_nodes(run))


def drain(names: Sequence[str], reason: str, run: Run) -> None:
    """Drain the nodes with one command.

    :raises CommandFailed: slurmctld refused.
    """
    if names:
        must(run(["scontrol", "update", f"NodeName={compress(names)}", "State=DRAIN", f"Reason={reason}"]))


def set_down(names: Sequence[str], reason: str, run: Run) -> None:
    """Set the nodes down. Their jobs are requeued. They return to scheduling when they register.

    :raises CommandFailed: slurmctld refused.
    """
    if names:
        must(run(["scontrol", "update", f"NodeName={compress(names)}", "State=DOWN", f"Reason={reason}"]))


def resume(names: Sequence[str], run: Run) -> None:
    """Resume the nodes with one command.

    They must have registered: slurmctld refuses to resume a node that never did ("Invalid node state specified").

    :raises CommandFailed: slurmctld refused.
    """
    if names:
        must(run(["scontrol", "update", f"NodeName={compress(names)}", "State=RESUME"]))
