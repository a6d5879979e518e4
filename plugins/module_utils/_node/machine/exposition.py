# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Prometheus' text format, and the folder of such files that a node exporter reads.

Text in labels is escaped. What ``Metrics`` gets is bounded too, and so is the number of its samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .atomic import write_file
from .root import Root

TEXT_FOLDER = "/var/lib/prometheus/node-exporter"
"""The folder from which Debian's and Ubuntu's node exporter reads text files."""
LONGEST_LABEL = 128
"""Longer values of labels are cut: an operator may choose the reason of a drain, a user nothing but numbers."""
MOST_SAMPLES = 20_000
"""Samples of one metric. 600 nodes with 8 GPUs have 4,800 samples of hpcai_job_info. Four metrics of a controller grow
with nodes or jobs, so its scrape may have five times as many samples (sample_limit in the role's prometheus.yml.j2)."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]
"""The values of a metric by labels, so that no series is written twice."""


@dataclass
class Metric:
    """A gauge with its samples.

    :ivar dropped: samples that were too many.
    """

    name: str
    help: str
    samples: Samples = field(default_factory=dict)
    dropped: int = 0

    def add(self, value: float, **labels: str) -> None:
        """Add a sample, unless there are too many."""
        if len(self.samples) >= MOST_SAMPLES:
            self.dropped += 1
        else:
            self.samples[tuple((name, bounded(text)) for name, text in labels.items())] = value


class Metrics:
    """Metrics by name.

    :param helps: the help text of each metric that may be added.
    """

    def __init__(self, helps: Mapping[str, str]) -> None:
        self._metrics = {name: Metric(name, text) for name, text in helps.items()}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a sample of a known metric."""
        self._metrics[name].add(value, **labels)

    def __iter__(self) -> Iterator[Metric]:
        """Yield the metrics that have samples."""
        return iter([one for one in self._metrics.values() if one.samples])

    @property
    def dropped(self) -> int:
        """Samples that were too many."""
        return sum(one.dropped for one in self._metrics.values())


def bounded(text: str) -> str:
    """Return a text as the value of a label: one short line of printable ASCII."""
    line = "".join(letter if letter.isprintable() and letter.isascii() else "?" for letter in " ".join(text.split()))
    return line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 3]}..."


def as_text(metrics: Iterable[Metric]) -> str:
    """Return metrics in the text format."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
        for labels, value in metric.samples.items():
            pairs = ",".join(f'{name}="{words.translate(_ESCAPES)}"' for name, words in labels)
            lines.append(f"{metric.name}{f'{{{pairs}}}' if pairs else ''} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(float(value)) if value != int(value) else str(int(value))


def text_folder(root: Root, stated: str | None) -> str:
    """Return the folder for text files; empty if none are written.

    :param stated: the folder of the settings, empty for none; None means the default folder, if it exists.
    """
    return stated if stated is not None else TEXT_FOLDER if root.exists(TEXT_FOLDER) else ""


def write_text_file(root: Root, stated: str | None, name: str, text: str) -> None:
    """Replace a text file for the node exporter, if such files are written.

    :param stated: as of ``text_folder``.
    :raises OSError: it cannot be written.
    """
    folder = text_folder(root, stated)
    if folder:
        write_file(root.at(f"{folder}/{name}"), text)
