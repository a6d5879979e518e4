# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Formats the report for programs (a mapping of JSON values) and for people (tables and sentences)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..machine.cpuset import CpuSet
from .advise import Advice, Placement
from .check import UNJUDGED, UNKNOWN, Inspection, Report
from .finding import SEVERITIES, Finding, matching
from .launch import Launch
from .layout import Layout
from .rank import Member, Rank


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as data: CPUs as Linux lists, masks in hexadecimal, memory in MiB."""
    inspection = report.inspection
    layout = inspection.layout if inspection else report.advice.layout if report.advice else None
    return {
        "verdict": inspection.verdict if inspection else UNKNOWN,
        "machine": _layout(layout) if layout else {},
        "ranks": [_rank(rank, inspection) for rank in inspection.ranks] if inspection else [],
        "others": [_member(member) for member in inspection.others] if inspection else [],
        "findings": [finding_data(found) for found in inspection.findings] if inspection else [],
        "advice": _advice(report.advice, report.start) if report.advice and report.start else None,
        "no_advice": report.no_advice,
    }


def finding_data(found: Finding) -> dict[str, Any]:
    """Return a finding as data."""
    return {
        "code": found.code,
        "severity": found.severity,
        "text": found.text,
        "action": found.action,
        "ranks": list(found.ranks),
        "pids": list(found.pids),
        "cpus": found.cpus.as_list(),
        "nodes": sorted(found.nodes),
        "gpus": sorted(found.gpus),
    }


def refusal(report: Report, fail_on: Collection[str]) -> str:
    """Return the findings that match ``fail_on`` (codes and severities) as an error on one line; empty if none do."""
    if not fail_on or not report.inspection:
        return ""
    findings = matching(report.inspection.findings, fail_on)
    if report.inspection.verdict == UNKNOWN and not findings:
        # No process was judged, so this is a failure too.
        findings = matching(report.inspection.findings, UNJUDGED)
    if not findings:
        return ""
    sentences = " ".join(f"[{found.code}] {found.text} {found.action}".rstrip() for found in findings)
    return f"The pinning has problems. {sentences}"


def as_text(report: Report) -> str:
    """Return the report for people, without a newline at its end."""
    sections = []
    inspection = report.inspection
    if inspection:
        sections.append(_machine_text(inspection.layout))
        if inspection.ranks:
            sections.append(_ranks_text(inspection))
        if inspection.others:
            names = ", ".join(f"{other.process.name} ({other.process.pid})" for other in inspection.others)
            sections.append(f"Also matched, but not ranks: {names}")
        if inspection.findings:
            sections.append("\n".join(_finding_text(found) for found in inspection.findings))
        elif inspection.ranks:
            sections.append("The pinning has no problems.")
    if report.advice and report.start:
        sections.append(_advice_text(report.advice, report.start))
    elif report.no_advice:
        sections.append(f"No advice: {report.no_advice}")
    return "\n\n".join(sections)


def bare_line(report: Report) -> str:
    """Return only the line that starts the ranks, for scripts; empty if there is no advice."""
    return report.start.line if report.start else ""


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "origin": layout.origin,
        "cpus_online": layout.online.as_list(),
        "cpus_usable": layout.usable.as_list(),
        "nodes": [
            {
                "node": node,
                "cpus": cpus.as_list(),
                "gpus": [int(gpu.name) for gpu in layout.gpus if gpu.node == node],
                "hcas": [hca.name for hca in layout.hcas if hca.node == node],
            }
            for node, cpus in layout.nodes.items()
        ],
        "memory_only_nodes": sorted(layout.memory_only),
        "gpus": [{"index": int(gpu.name), "busid": gpu.busid, "node": gpu.node} for gpu in layout.gpus],
        "hcas": [{"name": hca.name, "busid": hca.busid, "node": hca.node} for hca in layout.hcas],
    }


def _rank(rank: Rank, inspection: Inspection) -> dict[str, Any]:
    last = CpuSet(thread.last_cpu for thread in rank.threads)
    by_mask = Counter(thread.cpus for thread in rank.threads)
    return {
        "rank": rank.number,
        "label": rank.label,
        "verdict": _verdict(rank, inspection.findings),
        "pids": list(rank.pids),
        "processes": [_member(member) for member in rank.members],
        "threads": len(rank.threads),
        "busy_threads": sum(thread.state == "R" for thread in rank.threads),
        "threads_by_cpus": {
            cpus.as_list(): count for cpus, count in sorted(by_mask.items(), key=lambda i: sorted(i[0]))
        },
        "cpus": rank.cpus.as_list(),
        "mask": rank.cpus.as_mask(),
        "offline_cpus": rank.offline.as_list(),
        "nodes": sorted(inspection.layout.nodes_of(rank.cpus)),
        "last_cpus": last.as_list(),
        "last_nodes": sorted(inspection.layout.nodes_of(last)),
        "gpus": None if rank.gpus is None else list(rank.gpus),
        "gpus_assumed": rank.gpus_assumed,
        "hcas": None if rank.hcas is None else list(rank.hcas),
        "memory_nodes": None if rank.memory_nodes is None else sorted(rank.memory_nodes),
        "memory_mib": None
        if rank.memory is None
        else {str(node): round(mib, 1) for node, mib in rank.memory.mib_by_node.items()},
        "memory_policies": None if rank.memory is None else list(rank.memory.policies),
    }


def _member(member: Member) -> dict[str, Any]:
    # Leave out the command line: it may contain keys and tokens.
    return {"pid": member.process.pid, "name": member.process.name, "threads": len(member.threads)}


def _verdict(rank: Rank, findings: Sequence[Finding]) -> str:
    # Match by process id, because ranks of two jobs may have the same label.
    severities = {found.severity for found in findings if rank.pids[0] in found.pids}
    return next((severity for severity in SEVERITIES if severity in severities and severity != "info"), "good")


def _advice(advice: Advice, start: Launch) -> dict[str, Any]:
    return {
        "vm_size": None if advice.layout.origin == "machine" else advice.layout.origin,
        "masks": advice.masks,
        "ranks_per_node": len(start.placements),
        "threads_per_rank": advice.threads_per_rank,
        "ranks": [
            {
                "rank": placement.rank,
                "gpus": list(placement.gpus),
                "node": placement.node,
                "cpus": placement.cpus.as_list(),
                "mask": placement.cpus.as_mask(),
            }
            for placement in start.placements
        ],
        "launcher": start.launcher,
        "line": start.line,
        "arguments": list(start.arguments),
        "environment": dict(start.environment),
        "notes": [*advice.notes, *start.notes],
    }


def _machine_text(layout: Layout) -> str:
    rows = [("NODE", "CPUS", "USABLE", "GPUS", "HCAS")]
    usable = layout.usable_nodes
    for node, cpus in layout.nodes.items():
        rows.append(
            (
                str(node),
                cpus.as_list(),
                usable.get(node, CpuSet()).as_list() or "none",
                CpuSet(int(gpu.name) for gpu in layout.gpus if gpu.node == node).as_list() or "-",
                ",".join(hca.name for hca in layout.hcas if hca.node == node) or "-",
            )
        )
    return _columns(rows)


def _ranks_text(inspection: Inspection) -> str:
    rows: list[Sequence[str]] = [("RANK", "PID", "NAME", "THREADS", "CPUS", "NODES", "GPUS", "VERDICT")]
    for rank in inspection.ranks:
        gpus = "?" if rank.gpus is None else CpuSet(rank.gpus).as_list() or "-"
        main = rank.members[0].process
        rows.append(
            (
                "-" if rank.number is None else str(rank.number),
                str(main.pid),
                main.name,
                str(len(rank.threads)),
                rank.cpus.as_list(),
                inspection.layout.nodes_of(rank.cpus).as_list(),
                f"{gpus} (assumed)" if rank.gpus_assumed else gpus,
                _verdict(rank, inspection.findings),
            )
        )
    return _columns(rows)


def _finding_text(found: Finding) -> str:
    return f"{found.severity.upper()} {found.code}: {found.text} {found.action}".rstrip()


def _advice_text(advice: Advice, start: Launch) -> str:
    rows: list[Sequence[str]] = [("RANK", "GPUS", "NODE", "CPUS", "MASK")]
    rows += [_placement_row(placement) for placement in start.placements]
    where = "this machine" if advice.layout.origin == "machine" else advice.layout.origin
    lines = [f"Advice for {where}, {advice.masks} masks:", _columns(rows), _line_text(start)]
    lines += [f"- {note}" for note in (*advice.notes, *start.notes)]
    return "\n".join(lines)


def _placement_row(placement: Placement) -> Sequence[str]:
    return (
        str(placement.rank),
        CpuSet(placement.gpus).as_list() or "-",
        str(placement.node),
        placement.cpus.as_list(),
        placement.cpus.as_mask(),
    )


def _line_text(start: Launch) -> str:
    exports = _exports(start.environment) if start.launcher == "srun" else ""
    return f"{exports}{start.line} PROGRAM"


def _exports(environment: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
