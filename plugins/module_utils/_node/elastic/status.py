# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state of the elastic sets after a pass: for people, for programs and for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Callable

from ..machine.atomic import read_state, write_state
from ..machine.exposition import Metric, as_text, write_text_file
from ..machine.root import Root
from . import spool
from .book import DELETING, JOINED, LEASED, LEAVING, Book
from .settings import RUN_FOLDER, Settings
from .views import SlurmView

STATUS_FILE = f"{RUN_FOLDER}/status/status.json"
SCHEMA = 1
METRICS_FILE = "hpcai_elastic.prom"
OFF, WANTED, ORDERED, FAILED = "off", "wanted", "ordered", "failed"
READ_S = 60.0
"""How long a command waits for the daemon to read a set: a pass takes seconds, and longer if Azure answers slowly."""
_LOOK_S = 1.0
STATES = (OFF, WANTED, ORDERED, LEASED, JOINED, LEAVING, DELETING, FAILED)
"""The states of a slot."""
METRICS: Mapping[str, str] = {
    "hpcai_elastic_slots": "Slots of an elastic set by state.",
    "hpcai_elastic_closed": "1 if the set orders nothing because an order failed or machines never joined.",
    "hpcai_elastic_paused": "1 if an administrator has paused the set.",
    "hpcai_elastic_strangers": "Instances without a lease.",
    "hpcai_elastic_problems": "What could not be read or done in the last pass.",
    "hpcai_elastic_timestamp_seconds": "Time of the daemon's last pass.",
}
"""Names of the metrics, each with its help text."""


def document(
    book: Book, slurm: SlurmView | None, settings: Settings, problems: list[str], stopped: str, now: float
) -> dict[str, Any]:
    """Return the state as plain values."""
    ordered = {slot: one for one in book.orders for slot in one.slots}
    sets = {}
    for name, options in settings.sets.items():
        record = book.of(name)
        slots = []
        for slot in settings.followed(name, book.leases):
            lease, failure, order = book.leases.get(slot), book.failures.get(slot), ordered.get(slot)
            node = slurm.nodes.get(slot) if slurm else None
            shown: dict[str, Any] = {"slot": slot, "slurm": "+".join(sorted(node.states)) if node else "", "note": ""}
            if lease:
                kept = "kept by " + node.reason if node and node.is_kept_by_people else ""
                note = lease.why or (f"retires: {lease.retire}" if lease.retire else kept)
                machine = {"vm_id": lease.vm_id, "instance": lease.instance}
                shown.update(state=lease.state, since=lease.since, note=note, **machine)
            elif failure:
                note = f"{failure.code}: {failure.words}"
                shown.update(state=FAILED, since=failure.since, until=failure.until, note=note)
            elif order:
                shown.update(state=ORDERED, since=order.since, note=order.id)
            elif slot in book.wanted:
                shown.update(state=WANTED, since=book.wanted[slot])
            else:
                shown.update(state=OFF, since=0.0)
            slots.append(shown)
        closed = record.closed
        sets[name] = {
            "slots": slots,
            "min": options.min,
            "paused": record.paused,
            "closed": {"code": closed.code, "words": closed.words, "until": closed.until} if closed else None,
            "boots_failed": record.boots,
            "boot_failed": {"time": record.boot_failed, "words": record.boot_words},
            "strangers": sorted(record.strangers),
        }
    return {
        "time": int(now),
        "stopped": stopped,
        "sets": sets,
        "keep": dict(book.keep),
        "problems": list(problems),
    }


def write_status(root: Root, status: Mapping[str, Any], settings: Settings) -> None:
    """Write the state and the metrics.

    :raises OSError: they cannot be written.
    """
    write_state(root, STATUS_FILE, SCHEMA, status, mode=0o640, indent=None)
    write_text_file(root, settings.metrics, METRICS_FILE, metrics(status))


def read_status(root: Root) -> dict[str, Any] | None:
    """Return the state after the last pass; None if there is no readable one."""
    return read_state(root, STATUS_FILE, SCHEMA)


def read_again(
    root: Root,
    name: str,
    timeout_s: float = READ_S,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any] | None:
    """Let the daemon read a set of Azure, and return the state after that; None if it takes longer than the timeout.

    :raises OSError: the request cannot be written.
    """
    began = clock()
    spool.write(root, spool.CONTROL, spool.READ, [name], began)
    while clock() - began < timeout_s:
        sleep(_LOOK_S)
        found = read_status(root)
        # A pass that began earlier may have read the set before.
        if found and found["time"] > int(began):
            return found
        spool.poke(root)
    return None


def metrics(status: Mapping[str, Any]) -> str:
    """Return the state in the text format of Prometheus."""
    made = {name: Metric(name, words) for name, words in METRICS.items()}
    for name, one in status["sets"].items():
        for state, number in count(one).items():
            made["hpcai_elastic_slots"].add(number, set=name, state=state)
        made["hpcai_elastic_closed"].add(int(one["closed"] is not None), set=name)
        made["hpcai_elastic_paused"].add(int(one["paused"]), set=name)
        made["hpcai_elastic_strangers"].add(len(one["strangers"]), set=name)
    made["hpcai_elastic_problems"].add(len(status["problems"]))
    made["hpcai_elastic_timestamp_seconds"].add(status["time"])
    return as_text(made.values())


def machines(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the vmId of each slot that has a machine."""
    return {
        slot["slot"]: slot["vm_id"] for one in status["sets"].values() for slot in one["slots"] if slot.get("vm_id")
    }


def is_out(slot: Mapping[str, Any]) -> bool:
    """Whether Slurm shows a slot of a set as drained or down."""
    return "DRAIN" in slot["slurm"] or "DOWN" in slot["slurm"].split("+")


def is_free(slot: Mapping[str, Any]) -> bool:
    """Whether a slot of a set has no machine, and Slurm can power it up for a job."""
    return slot["state"] == OFF and "POWERED_DOWN" in slot["slurm"] and not is_out(slot)


def why_no_orders(name: str, one: Mapping[str, Any]) -> str:
    """Return why a set orders nothing at all; empty if it does."""
    if one["paused"]:
        return f"{name} is paused: 'hpcnode elastic resume {name}' ends that"
    closed = one["closed"]
    return f"{name} orders nothing: {closed['code']}: {closed['words']}" if closed else ""


def why_no_jobs(slot: Mapping[str, Any]) -> str:
    """Return why a joined slot gets no jobs; empty if it does."""
    return f"{slot['slot']} joined, but gets no jobs: {slot['note']}" if is_out(slot) else ""


def count(one: Mapping[str, Any]) -> dict[str, int]:
    """Return how many slots of a set are in each state."""
    counts = dict.fromkeys(STATES, 0)
    for slot in one["slots"]:
        counts[slot["state"]] += 1
    return counts


def is_bad(status: Mapping[str, Any]) -> bool:
    """Whether a person has to do something."""
    return any(one["closed"] and not one["closed"]["until"] for one in status["sets"].values())


def lacks_data(status: Mapping[str, Any]) -> bool:
    """Whether something could not be read or done."""
    return bool(status["problems"])


def lines(status: Mapping[str, Any], everything: bool = False) -> list[str]:
    """Return the state as lines for people.

    :param everything: also the slots that are off.
    """
    made = []
    for name, one in status["sets"].items():
        counts = ", ".join(f"{number} {state}" for state, number in count(one).items() if number)
        made.append(f"{name}: {counts}{' (paused)' if one['paused'] else ''}")
        closed = one["closed"]
        if closed:
            until = f"until {_utc(closed['until'])}" if closed["until"] else "until an administrator opens it"
            made.append(f"  orders nothing {until}: {closed['code']}: {closed['words']}")
        for slot in one["slots"]:
            if slot["state"] != OFF or everything:
                since = f" since {_utc(slot['since'])}" if slot["since"] else ""
                machine = f" {slot['vm_id']} (instance {slot['instance']})" if slot.get("vm_id") else ""
                note = f": {slot['note']}" if slot["note"] else ""
                made.append(f"  {slot['slot']} {slot['state']}{since}{machine}{note}")
        if one["strangers"]:
            made.append(f"  {len(one['strangers'])} instances without a lease: {', '.join(one['strangers'][:5])}")
    made += [f"kept until {_utc(until)}: {name}" for name, until in sorted(status["keep"].items())]
    if status["stopped"]:
        made.append(f"no growth: {status['stopped']}")
    return [*made, *(f"problem: {problem}" for problem in status["problems"])]


def _utc(when: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
