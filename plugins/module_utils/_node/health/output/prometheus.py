# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A run of a tier as a text file for Prometheus, which the node exporter's textfile collector reads.

One file a tier. Such a file may carry no time stamps, so the time of the run is a metric.
"""

from __future__ import annotations

import calendar
import math
import time
from collections.abc import Mapping
from typing import Any

from ...machine.atomic import write_file
from ...machine.root import Root
from ..check import VERDICTS
from ..settings import Settings
from .as_json import TIME

FOLDER = "/var/lib/prometheus/node-exporter"
"""Where Debian's and Ubuntu's node exporter looks for such files."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP = {
    "run_timestamp_seconds": "When the last run of this tier began, in seconds since the epoch.",
    "run_seconds": "How long the last run of this tier took.",
    "run_verdict": "1 for the verdict of the last run of this tier, 0 for the others.",
    "check_verdict": "1 for the verdict of a check, 0 for the others.",
    "check_seconds": "How long a check took.",
    "check_latched": "1 if the verdict comes from what an earlier run has found.",
    "reading": "What a check measured.",
    "reading_limit": "What a measured value was compared with.",
    "node_info": "Which machine this is.",
}
"""Names of the metrics without ``hpcai_health_``; all are gauges."""

Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]
"""The values of a metric by labels: one series is never written twice."""


def folder_of(root: Root, settings: Settings) -> str:
    """Return the folder for the files; nothing where none is wanted."""
    if settings.prometheus is not None:
        return settings.prometheus
    return FOLDER if root.exists(FOLDER) else ""


def write(root: Root, folder: str, document: Mapping[str, Any]) -> None:
    """Replace the file of the document's tier.

    :raises OSError: it cannot be written.
    """
    write_file(root.at(f"{folder}/hpcai_health_{document['tier']}.prom"), as_text(document))


def as_text(document: Mapping[str, Any]) -> str:
    """Return the file's text."""
    lines = []
    for name, samples in _metrics(document).items():
        lines += [f"# HELP hpcai_health_{name} {_HELP[name]}", f"# TYPE hpcai_health_{name} gauge"]
        for labels, value in samples.items():
            told = ",".join(f'{label}="{words.translate(_ESCAPES)}"' for label, words in labels)
            lines.append(f"hpcai_health_{name}{{{told}}} {_number(value)}")
    return "\n".join(lines) + "\n"


def _metrics(document: Mapping[str, Any]) -> dict[str, Samples]:
    tier = ("tier", str(document["tier"]))
    metrics: dict[str, Samples] = {name: {} for name in _HELP}
    metrics["run_timestamp_seconds"][(tier,)] = calendar.timegm(time.strptime(document["time"], TIME))
    metrics["run_seconds"][(tier,)] = document["seconds"]
    metrics["node_info"][(tier, *((key, str(words)) for key, words in document["node"].items()))] = 1
    metrics["run_verdict"].update(_verdicts((tier,), document["verdict"]))
    for check in document["checks"]:
        which = (tier, ("check", check["name"]))
        metrics["check_verdict"].update(_verdicts(which, check["verdict"]))
        metrics["check_seconds"][which] = check["seconds"]
        metrics["check_latched"][which] = float(check["latched"])
        for reading in check["readings"]:
            if isinstance(reading["value"], (int, float)):
                labels = (*which, *((key, str(reading[key])) for key in ("name", "device", "unit")))
                metrics["reading"][labels] = reading["value"]
                if reading["limit"] is not None:
                    bound = ("bound", "max" if reading["at_most"] else "min")
                    metrics["reading_limit"][(*labels, bound)] = reading["limit"]
    return {name: samples for name, samples in metrics.items() if samples}


def _verdicts(labels: Labels, verdict: str) -> Samples:
    return {(*labels, ("verdict", one)): float(one == verdict) for one in VERDICTS}


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value)) if value != int(value) else str(int(value))
