# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CosmoFlow: four cosmological parameters from a cube of dark matter, with DistributedDataParallel.

The model and its training follow MLPerf HPC (mlcommons/hpc, cosmoflow): five convolutions and three dense layers, SGD,
the learning rate grows with the batch, targets are scaled by tanh. The data are its TFRecord files, also compressed.
"""

from __future__ import annotations

import argparse
import functools
import glob
import random
from collections.abc import Iterator

import harness
import replicas
import tfrecord
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

_CHANNELS, _TARGETS = 4, 4
_SCALE = 1.2
"""Targets are between -1 and 1, which tanh alone reaches at infinity only."""
_BASE_BATCH = 64
"""The batch for which the learning rate is given."""


def model_of(side: int, filters: int) -> nn.Sequential:
    """Return the model for cubes of ``side`` cells; 8,907,556 parameters for 128 cells and 32 filters."""
    layers: list[nn.Module] = []
    before = _CHANNELS
    for stage in range(5):
        layers += [nn.Conv3d(before, filters << stage, 3 if stage < 5 else 1, padding="same"), nn.LeakyReLU(0.3)]
        layers.append(nn.MaxPool3d(2))
        before = filters << stage
    flat = before * (side >> 5) ** 3
    dense = [nn.Flatten(), nn.Linear(flat, 128), nn.LeakyReLU(0.3), nn.Dropout(0.5)]
    dense += [nn.Linear(128, 64), nn.LeakyReLU(0.3), nn.Dropout(0.5), nn.Linear(64, _TARGETS), nn.Tanh()]
    return nn.Sequential(*layers, *dense)


def read_sample(path: str, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cube and the targets of a file."""
    features = tfrecord.features_of(next(tfrecord.records(path)))
    content, targets = features["x"], features["y"]
    if not isinstance(content, bytes) or isinstance(targets, bytes):
        raise tfrecord.DamagedRecord(f"{path} has not the features of CosmoFlow")
    cells = torch.frombuffer(bytearray(content), dtype=torch.int16)
    if len(cells) != side**3 * _CHANNELS:
        raise tfrecord.DamagedRecord(f"{path} has {len(cells)} cells, not {side}^3 times {_CHANNELS}")
    cube = cells.float().view(side, side, side, _CHANNELS).permute(3, 0, 1, 2)
    return torch.log1p(cube), torch.tensor(targets)


def main() -> None:
    """Train."""
    parser = harness.options(__doc__ or "")
    add = parser.add_argument
    add("--side", type=int, default=128, help="cells along an edge of the cube")
    add("--filters", type=int, default=32, help="filters of the first convolution")
    add("--samples", type=int, default=32, help="synthetic samples, if there is no data")
    args = parser.parse_args()
    training = harness.Training(args, any_world=True)
    plain = model_of(args.side, args.filters).to(training.device)
    rate = args.learning_rate * training.samples / _BASE_BATCH
    optimizer = torch.optim.SGD(plain.parameters(), lr=rate, momentum=0.9)
    start = replicas.load(training, plain, optimizer)
    training.say(f"{sum(one.numel() for one in plain.parameters())} parameters")
    model = DistributedDataParallel(plain, device_ids=[training.rank.local] if args.device == "cuda" else None)

    def step(number: int, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        # Dropout depends on the step and the rank, so a resumed training drops the same units.
        torch.manual_seed(args.seed + number * training.rank.world + training.rank.rank)
        cubes, targets = (one.to(training.device) for one in batch)
        loss = F.mse_loss(model(cubes) * _SCALE, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    training.loop(start, _batches(args, training, start), step, replicas.writer(training, plain, optimizer))


def _batches(
    args: argparse.Namespace, training: harness.Training, start: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the batches of this rank after ``start``: each epoch has its own order, the same on all ranks."""
    files = sorted(glob.glob(f"{glob.escape(args.data)}/**/*.tfrecord*", recursive=True)) if args.data else []
    if args.data and not files:
        harness.refuse(f"{args.data} has no TFRecord files")
    count = len(files) or args.samples

    # A batch may be at the border of two epochs.
    @functools.lru_cache(maxsize=2)
    def order_of(epoch: int) -> list[int]:
        order = list(range(count))
        random.Random(args.seed + epoch).shuffle(order)
        return order

    world, rank, size = training.rank.world, training.rank.rank, args.micro_batch
    number = start
    while True:
        chosen = []
        for one in range(size):
            position = (number * world + rank) * size + one
            chosen.append(order_of(position // count)[position % count])
        pairs = [read_sample(files[one], args.side) if files else _synthetic(one, args) for one in chosen]
        yield torch.stack([cube for cube, _target in pairs]), torch.stack([target for _cube, target in pairs])
        number += 1


def _synthetic(number: int, args: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(args.seed + number)
    targets = torch.rand(_TARGETS, generator=source) * 2 - 1
    rates = (8 * (targets + 1.5)).view(_TARGETS, 1, 1, 1).expand(_TARGETS, args.side, args.side, args.side)
    return torch.log1p(torch.poisson(rates, generator=source)), targets


if __name__ == "__main__":
    main()
