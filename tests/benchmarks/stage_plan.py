# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the balance of the shards with its lower bound, and measure the time of the plan.

There are two data sets. CosmoFlow's has 128,000 files in groups of 64, of about 2 MB each as stored. The other one has
a long tail: 100,000 files, most of a few kB, a few of 10 GB.

Run it with `tests/benchmarks/run.sh stage_plan`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import Blob
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.plan import quality_of, shards_of

_GROUPS, _SAMPLES = 64, 2_000
_TAIL = 100_000
_NODES = (2, 4, 16, 64, 128)


def cosmoflow() -> list[Blob]:
    """64 files for each of 2,000 universes, with slightly different sizes after compression."""
    kind = random.Random(1)
    return [
        Blob(f"univ_ics_2019-03_a{sample:07d}_{group:03d}.tfrecord.gz", int(kind.gauss(2_100_000, 90_000)))
        for sample in range(_SAMPLES)
        for group in range(_GROUPS)
    ]


def long_tail() -> list[Blob]:
    """Files with sizes of a Pareto distribution: half below 20 kB, the largest about 10 GB."""
    kind = random.Random(2)
    return [Blob(f"shard/{number}", min(10**10, int(8_000 * kind.paretovariate(0.8)))) for number in range(_TAIL)]


def groups(blobs: Sequence[Blob], count: int) -> list[list[str]]:
    """The division by names in CosmoFlow's tutorial, for comparison."""
    shards: list[list[str]] = [[] for _number in range(count)]
    for blob in blobs:
        shards[int(blob.name[-15:-12]) * count // _GROUPS].append(blob.name)
    return shards


def main() -> None:
    """Print a table."""
    print("data set, files, nodes: plan in s, above the lower bound")
    for name, blobs in (("cosmoflow", cosmoflow()), ("long tail", long_tail())):
        for count in _NODES:
            began = time.perf_counter()
            shards = shards_of(blobs, count)
            took = time.perf_counter() - began
            line = f"{name}, {len(blobs)}, {count}: {took:.2f} s, {(quality_of(blobs, shards).ratio - 1) * 100:.4f} %"
            if name == "cosmoflow" and count <= _GROUPS:
                line += f" (by names {(quality_of(blobs, groups(blobs, count)).ratio - 1) * 100:.4f} %)"
            print(line)


if __name__ == "__main__":
    main()
