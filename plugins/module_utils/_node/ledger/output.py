# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The ledger as plain values, as text, as metrics for Prometheus, and as a page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, TypeVar

from ..machine.exposition import Labels, Metric, as_text
from ..machine.web_page import document, table
from ..sku.prices import PriceList
from .buckets import ABSENT, BUCKETS, BY_CHECK, DOWN, LOST, rank_of
from .compute import Ledger, Work, service_s
from .reliability import CONFIDENCE, Failure, Reliability, reliability

MOST_NODES = 10
_MOST_LISTED = 50
_HOUR = 3600.0
_Key = TypeVar("_Key")
_SET = re.compile(r"(.*?)-?\d+")
METRICS_FILE = "hpcai_goodput.prom"
WORDS: Mapping[str, str] = {
    "kept": "kept by a checkpoint",
    "lost": "lost",
    "unknown": "unknown whether kept",
    "starting": "jobs starting",
    "hold": "waiting after a requeue",
    "idle": "idle",
    "drained_check": "drained by a check",
    "drained_people": "drained by people",
    "down": "down",
}


@dataclass(frozen=True)
class Rates:
    """Prices of nodes.

    :ivar prices: the price file; None if there is none.
    :ivar region: of the cluster.
    :ivar sizes: the VM size of each node.
    :ivar spot: names of nodes that are spot machines.
    """

    prices: PriceList | None = None
    region: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    spot: frozenset[str] = frozenset()

    def of(self, node: str) -> float | None:
        """Return the price of a node per hour; None if unknown."""
        size = self.sizes.get(node, "")
        if self.prices is None or not size or not self.region:
            return None
        return self.prices.of_size(self.region, size, node in self.spot)


def as_data(ledger: Ledger, rates: Rates) -> dict[str, Any]:
    """Return the ledger as plain values. Pure.

    Money is null if the price of a node with such time is unknown: an incomplete sum would look like a cheap cluster.
    """
    total = sum(ledger.seconds(bucket) for bucket in BUCKETS)
    buckets = {
        bucket: {
            "node_seconds": round(ledger.seconds(bucket), 3),
            "share": ledger.seconds(bucket) / total if total else 0.0,
            "money": _money(ledger, rates, (bucket,)),
        }
        for bucket in BUCKETS
    }
    known = ledger.seconds("kept") + ledger.seconds("lost")
    return {
        "since": _utc(ledger.since),
        "until": _utc(ledger.until),
        "seconds": ledger.until - ledger.since,
        "nodes": len({node for node, _machine in ledger.totals}),
        "node_seconds": round(total, 3),
        "absent_node_seconds": round(ledger.seconds(ABSENT), 3),
        "buckets": buckets,
        # Of the time for which it is known what became of the work.
        "runtime_goodput": ledger.seconds("kept") / known if known else None,
        "currency": rates.prices.currency if rates.prices else None,
        "runs": ledger.runs,
        "requeues": ledger.requeues,
        "lost_by_cause": {cause: round(seconds, 3) for cause, seconds in sorted(ledger.lost.items())},
        "work": [{"name": name, "user": user, **_work(work)} for (name, user), work in _largest(ledger.work)],
        "jobs": [
            {"job": job, "training": training, "user": user, **_work(work)}
            for (training, user, job), work in _largest(ledger.jobs)
        ],
        "reliability": _reliability(ledger, rates),
        "costliest_nodes": costliest(ledger, rates),
        "decisions": ledger.decisions,
        "notes": ledger.notes,
    }


def _largest(work: Mapping[_Key, Work]) -> list[tuple[_Key, Work]]:
    def size(one: tuple[_Key, Work]) -> float:
        return -sum(one[1].seconds.values()) * one[1].nodes

    return sorted(work.items(), key=size)[:_MOST_LISTED]


def _work(work: Work) -> dict[str, Any]:
    return {
        "ettr": work.ettr,
        "runs": work.runs,
        "interruptions": work.interruptions,
        "nodes": work.nodes,
        "first_eligible": _utc(work.eligible),
        "last_end": _utc(work.end),
        "seconds": {bucket: round(seconds, 3) for bucket, seconds in sorted(work.seconds.items())},
    }


def _money(ledger: Ledger, rates: Rates, buckets: Iterable[str], node: str | None = None) -> float | None:
    total = 0.0
    for (name, _machine), totals in ledger.totals.items():
        seconds = sum(totals[rank_of(bucket)] for bucket in buckets) if node in (None, name) else 0.0
        if seconds:
            price = rates.of(name)
            if price is None:
                return None
            total += price * seconds / _HOUR
    return round(total, 2) if rates.prices else None


def _reliability(ledger: Ledger, rates: Rates) -> dict[str, Any]:
    service: dict[str, float] = {}
    for (node, _machine), totals in ledger.totals.items():
        service[node] = service.get(node, 0.0) + service_s(totals)
    everything = sum(service.values())

    def of_machine(node: str, machine: str, seconds: float) -> dict[str, Any]:
        failures = _failures_of(ledger, node, machine)
        figures = _figures(reliability(failures, seconds, ledger.since, ledger.until))
        return {"node": node, "vm_id": machine, **figures}

    def grouped(key: Callable[[str], str]) -> dict[str, Any]:
        seconds: dict[str, float] = {}
        for node, one in service.items():
            seconds[key(node)] = seconds.get(key(node), 0.0) + one
        failures: dict[str, list[Failure]] = {}
        for failure in ledger.failures:
            failures.setdefault(key(failure.node), []).append(failure)
        return {
            name: _figures(reliability(failures.get(name, ()), seconds[name], ledger.since, ledger.until))
            for name in sorted(set(seconds) - {""})
        }

    faults: dict[str, list[Failure]] = {}
    for one in ledger.failures:
        faults.setdefault(one.fault, []).append(one)
    return {
        "confidence": CONFIDENCE,
        "all": _figures(reliability(ledger.failures, everything, ledger.since, ledger.until)),
        "by_set": grouped(set_of),
        "by_size": grouped(lambda node: rates.sizes.get(node, "")),
        # Azure reuses names: each machine that had the node's name has its own figures.
        "by_node": [of_machine(*key, service_s(totals)) for key, totals in sorted(ledger.totals.items())],
        "by_fault": {
            fault: _figures(reliability(listed, everything, ledger.since, ledger.until))
            for fault, listed in sorted(faults.items())
        },
    }


def set_of(node: str) -> str:
    """Return the set in a node's name, which is ``SET-NUMBER``; the name itself if it has no number."""
    found = _SET.fullmatch(node)
    return found[1] if found and found[1] else node


def _figures(found: Reliability) -> dict[str, Any]:
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in asdict(found).items()}


def costliest(ledger: Ledger, rates: Rates, most: int = MOST_NODES) -> list[dict[str, Any]]:
    """Return the machines that cost the most: drained by checks, down, and work of whole jobs that they ended.

    They are compared by money if the prices of all of them are known, else by node-seconds.
    """
    rows: list[dict[str, Any]] = []
    for (node, machine), totals in ledger.totals.items():
        out = totals[rank_of(BY_CHECK)] + totals[rank_of(DOWN)]
        lost = ledger.blamed.get((node, machine), 0.0)
        parts = _failures_of(ledger, node, machine)
        if out + lost > 0:
            price = rates.of(node)
            rows.append(
                {
                    "node": node,
                    "vm_id": machine,
                    "out_seconds": round(out, 1),
                    "lost_node_seconds": round(lost, 1),
                    "failures": len(parts),
                    "faults": sorted({one.fault for one in parts}),
                    "money": None if price is None else round(price * (out + lost) / _HOUR, 2),
                }
            )
    priced = all(row["money"] is not None for row in rows)

    def order(row: Mapping[str, Any]) -> tuple[float, float, str]:
        return (-row["money"] if priced else 0.0, -row["out_seconds"] - row["lost_node_seconds"], row["node"])

    return sorted(rows, key=order)[:most]


def _failures_of(ledger: Ledger, node: str, machine: str) -> list[Failure]:
    """Return the failures of a node that began while it was a machine."""
    times = ledger.machine_times.get((node, machine), [(ledger.since, ledger.until)])
    mine = [one for one in ledger.failures if one.node == node]
    return [one for one in mine if any(start <= one.start < end for start, end in times)]


def _utc(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)) if 0 <= when < 1e11 else ""


def _nodes(data: Mapping[str, Any]) -> str:
    return "1 node" if data["nodes"] == 1 else f"{data['nodes']} nodes"


def text(data: Mapping[str, Any]) -> str:
    """Return the ledger for people."""
    hours = data["node_seconds"] / _HOUR
    lines = [f"{data['since']} to {data['until']}: {_nodes(data)}, {hours:.1f} node-hours"]
    for bucket, found in data["buckets"].items():
        money = f"  {found['money']:12.2f} {data['currency']}" if found["money"] is not None else ""
        lines.append(f"  {WORDS[bucket]:26} {found['node_seconds'] / _HOUR:12.2f} h  {found['share']:6.1%}{money}")
    lines.append(f"runs {data['runs']}, requeues {data['requeues']}, runtime goodput {_share(data['runtime_goodput'])}")
    for cause, seconds in data["lost_by_cause"].items():
        lines.append(f"  lost by {cause}: {seconds / _HOUR:.2f} node-hours")
    lines += [f"{work['name']} of {work['user']}: {_figures_of(work)}" for work in data["work"]]
    if len({work["name"] for work in data["work"]}) == 1:
        lines += [f"  job {work['job']} of {work['user']}: {_figures_of(work)}" for work in data["jobs"]]
    lines.append(f"nodes: {_mtbf(data['reliability']['all'])}")
    lines += [f"  {name}: {_mtbf(found)}" for name, found in data["reliability"]["by_fault"].items()]
    for row in data["costliest_nodes"]:
        lines.append(f"{row['node']}: {_cost(row, data['currency'])}")
    for one in data["decisions"]:
        lines.append(f"recovery of job {one['job']} at {_utc(one['time'])}: {one['action']}: {one['reason']}")
    return "\n".join([*lines, *(f"note: {note}" for note in data["notes"])])


def _figures_of(work: Mapping[str, Any]) -> str:
    return (
        f"ETTR {_share(work['ettr'])}, {work['runs']} runs, {work['interruptions']} interruptions, "
        f"{work['nodes']} nodes"
    )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _mtbf(found: Mapping[str, Any]) -> str:
    low = f"{found['mtbf_low_s'] / _HOUR:.0f} h"
    if not found["failures"]:
        return f"no failure in {found['service_s'] / _HOUR:.0f} node-hours, so MTBF is more than {low}"
    bounds = f"{low} to {found['mtbf_high_s'] / _HOUR:.0f} h"
    repair = "unknown" if found["mttr_s"] is None else f"{found['mttr_s'] / _HOUR:.1f} h"
    still = f", {found['open']} not repaired" if found["open"] else ""
    return f"{found['failures']} failures, MTBF {found['mtbf_s'] / _HOUR:.0f} h ({bounds}), MTTR {repair}{still}"


def _cost(row: Mapping[str, Any], currency: str | None) -> str:
    money = f", {row['money']:.2f} {currency}" if row["money"] is not None else ""
    return (
        f"{row['out_seconds'] / _HOUR:.1f} h out of service, {row['lost_node_seconds'] / _HOUR:.1f} node-hours of work "
        f"lost{money} ({', '.join(row['faults']) or 'no failure began in the window'})"
    )


def metrics(data: Mapping[str, Any], now: float, hide_users: bool = False) -> str:
    """Return the ledger in the text format of Prometheus. The number of series does not grow with nodes and jobs.

    :param hide_users: leave out single trainings, because users do not see each other's jobs.
    """
    made = []

    def add(name: str, words: str, samples: Iterable[tuple[Labels, float | None]]) -> None:
        made.append(Metric(name, words, {labels: value for labels, value in samples if value is not None}))

    buckets = data["buckets"].items()
    add(
        "hpcai_goodput_node_seconds",
        "Node-seconds of the window by what they were used for.",
        (((("bucket", name),), found["node_seconds"]) for name, found in buckets),
    )
    add("hpcai_goodput_window_seconds", "Length of the window.", [((), data["seconds"])])
    add("hpcai_goodput_runtime_ratio", "Kept work / (kept + lost work).", [((), data["runtime_goodput"])])
    lost = data["lost_by_cause"].items()
    add(
        "hpcai_goodput_lost_node_seconds",
        "Lost work in node-seconds by cause.",
        (((("cause", name),), seconds) for name, seconds in lost),
    )
    trainings = [work for work in data["work"] if not work["name"].startswith("job ")][:20]
    if hide_users:
        trainings = []
    add(
        "hpcai_goodput_training_ettr_ratio",
        "Effective training time ratio.",
        (((("training", work["name"]), ("user", _label(work["user"]))), work["ettr"]) for work in trainings),
    )
    by_fault = data["reliability"]["by_fault"].items()
    add(
        "hpcai_goodput_node_failures",
        "Failures of nodes in the window by class.",
        (((("fault", _label(name)),), found["failures"]) for name, found in by_fault),
    )
    everything = data["reliability"]["all"]
    add("hpcai_goodput_mtbf_seconds", "Mean time between failures of a node.", [((), everything["mtbf_s"])])
    add(
        "hpcai_goodput_mtbf_low_seconds",
        "Lower bound of its 90 % confidence interval.",
        [((), everything["mtbf_low_s"])],
    )
    add("hpcai_goodput_timestamp_seconds", "When this was computed.", [((), round(now))])
    return as_text(made)


def _label(text_: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", text_)


def page(data: Mapping[str, Any]) -> str:
    """Return the ledger as one HTML file without scripts."""
    hours = data["node_seconds"] / _HOUR
    facts = f"{data['since']} to {data['until']}, {_nodes(data)}, {hours:.1f} node-hours"
    rows = [
        (
            escape(WORDS[bucket]),
            f"{found['node_seconds'] / _HOUR:.1f}",
            f"{found['share']:.1%}",
            "" if found["money"] is None else f"{found['money']:.2f}",
        )
        for bucket, found in data["buckets"].items()
    ]
    money = data["currency"] or "money"
    work = [
        (
            escape(one["name"]),
            escape(one["user"]),
            _share(one["ettr"]),
            str(one["runs"]),
            str(one["interruptions"]),
            str(one["nodes"]),
            f"{one['seconds'].get(LOST, 0.0) / 60:.1f}",
        )
        for one in data["work"]
    ]
    groups = [("all nodes", data["reliability"]["all"])]
    for title, key in (("set", "by_set"), ("VM size", "by_size"), ("fault", "by_fault")):
        groups += [(f"{title} {name}", found) for name, found in data["reliability"][key].items()]
    nodes = [(escape(row["node"]), escape(_cost(row, data["currency"]))) for row in data["costliest_nodes"]]
    decisions = [
        (_utc(one["time"]), str(one["job"]), escape(str(one["action"])), escape(str(one["reason"])))
        for one in data["decisions"]
    ]
    body = [
        f"<p>{escape(facts)}. Runtime goodput {_share(data['runtime_goodput'])}.</p>",
        "<h2>What the time was used for</h2>",
        table(("", "node-hours", "share", money), rows, numbers=(1, 2, 3)),
        "<h2>Trainings, and jobs with checkpoints</h2>",
        table(("", "user", "ETTR", "runs", "interruptions", "nodes", "minutes lost"), work, numbers=(2, 3, 4, 5, 6))
        if work
        else "<p>No checkpoints are known, so it is not known what was kept and lost.</p>",
        "<h2>Time between failures</h2>",
        table(
            ("", "bounds of the 90 % confidence interval"),
            [(escape(name), escape(_mtbf(found))) for name, found in groups],
        ),
        "<h2>Nodes that cost the most</h2>",
        table(("node", ""), nodes) if nodes else "<p>None.</p>",
        "<h2>Recovery</h2>",
        table(("when", "job", "action", "reason"), decisions) if decisions else "<p>No job was recovered.</p>",
        *(f'<p class="bad">{escape(note)}</p>' for note in data["notes"]),
    ]
    return document("Goodput", body)
