# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Writes a run of a tier as a text file for Prometheus, for the node exporter's textfile collector.

There is one file per tier. Such a file must not have time stamps, so the time of the run is a metric.

Each series of each node costs Prometheus memory, so nothing is written twice: only the current verdict, readings by one
tier only, and one limit for all devices that share it.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..machine import exposition
from ..machine.atomic import write_file
from ..machine.exposition import Labels, Metric, Samples
from ..machine.root import Root
from .catalog import NAMES, load
from .check import PERIODIC, PROLOG
from .record import TIME
from .settings import Settings

_LONG_S = 1.0
_HELP = {
    "run_timestamp_seconds": "Start time of the last run of this tier, in seconds since the epoch.",
    "run_seconds": "Duration of the last run of this tier in seconds.",
    "run_verdict": "Always 1; the label verdict is the verdict of the last run of this tier.",
    "check_verdict": "Always 1; the label verdict is the verdict of the check.",
    "check_seconds": "Duration of the check in seconds; only in the tier prolog, or if it is 1 s or more.",
    "check_latched": "1 if the verdict comes from a finding of an earlier run; absent otherwise.",
    "reading": "Value that the check measured; from the tier periodic if the check has that tier.",
    "reading_limit": "Limit of a measured value; without device if several devices have the same limit.",
    "node_info": "Always 1; the labels identify this machine.",
}
"""Names of the metrics without ``hpcai_health_``; all are gauges."""


def folder_of(root: Root, settings: Settings) -> str:
    """Return the folder for the files; empty if no files are written."""
    return exposition.text_folder(root, settings.prometheus)


def write(root: Root, folder: str, document: Mapping[str, Any]) -> None:
    """Replace the file of the document's tier.

    :raises OSError: it cannot be written.
    """
    write_file(root.at(f"{folder}/hpcai_health_{document['tier']}.prom"), as_text(document))


def as_text(document: Mapping[str, Any]) -> str:
    """Return the file's text."""
    found = _metrics(document).items()
    return exposition.as_text(Metric(f"hpcai_health_{name}", _HELP[name], samples) for name, samples in found)


def _metrics(document: Mapping[str, Any]) -> dict[str, Samples]:
    tier = ("tier", str(document["tier"]))
    metrics: dict[str, Samples] = {name: {} for name in _HELP}
    metrics["run_timestamp_seconds"][(tier,)] = calendar.timegm(time.strptime(document["time"], TIME))
    metrics["run_seconds"][(tier,)] = document["seconds"]
    metrics["node_info"][(tier, *((key, str(words)) for key, words in document["node"].items()))] = 1
    metrics["run_verdict"][(tier, ("verdict", document["verdict"]))] = 1
    for check in document["checks"]:
        which = (tier, ("check", check["name"]))
        metrics["check_verdict"][(*which, ("verdict", check["verdict"]))] = 1
        if document["tier"] == PROLOG or check["seconds"] >= _LONG_S:
            metrics["check_seconds"][which] = check["seconds"]
        if check["latched"]:
            metrics["check_latched"][which] = 1
        if document["tier"] == _tier_of_readings(check["name"], str(document["tier"])):
            readings = [one for one in check["readings"] if isinstance(one["value"], (int, float))]
            metrics["reading"].update({(*which, *_labels(one, with_device=True)): one["value"] for one in readings})
            metrics["reading_limit"].update(_limits(which, readings))
    return {name: samples for name, samples in metrics.items() if samples}


def _tier_of_readings(check: str, tier: str) -> str:
    """Return the one tier that writes a check's readings: periodic if the check has it, else its first tier."""
    tiers = load(check).tiers if check in NAMES else (tier,)
    return PERIODIC if PERIODIC in tiers else tiers[0]


def _labels(reading: Mapping[str, Any], with_device: bool) -> Labels:
    device = str(reading["device"]) if with_device else ""
    return (("name", str(reading["name"])), ("device", device), ("unit", str(reading["unit"])))


def _limits(which: Labels, readings: Sequence[Mapping[str, Any]]) -> Samples:
    """Return the limits: one without device if several devices have the same limit, else one per device."""
    of_name: dict[str, list[float | None]] = {}
    for one in readings:
        of_name.setdefault(one["name"], []).append(one["limit"])
    limit_samples = {}
    for one in readings:
        if one["limit"] is not None:
            limits = of_name[one["name"]]
            labels = _labels(one, with_device=len(limits) == 1 or len(set(limits)) > 1)
            limit_samples[(*which, *labels, ("bound", "max" if one["at_most"] else "min"))] = float(one["limit"])
    return limit_samples
