# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResNet with DistributedDataParallel on synthetic images: the scaling efficiency from one node to all of them.

It trains some steps on one node, then on two, four and so on, within the same job, and compares images per second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import harness
import replicas
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

_BLOCKS = {18: ((2, 2, 2, 2), False), 50: ((3, 4, 6, 3), True), 101: ((3, 4, 23, 3), True), 152: ((3, 8, 36, 3), True)}
"""Blocks of each stage, and whether they are bottlenecks (arXiv 1512.03385, table 1)."""


class Block(nn.Module):
    """A residual block, plain or with a bottleneck."""

    def __init__(self, before: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        after = width * (4 if bottleneck else 1)
        if bottleneck:
            sizes = ((before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1))
        else:
            sizes = ((before, width, 3, stride), (width, after, 3, 1))
        layers: list[nn.Module] = []
        for one, (inner, outer, kernel, step) in enumerate(sizes):
            layers += [nn.Conv2d(inner, outer, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(outer)]
            layers += [nn.ReLU(inplace=True)] if one < len(sizes) - 1 else []
        self.body = nn.Sequential(*layers)
        same = before == after and stride == 1
        self.skip = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet(depth: int, width: int, classes: int) -> nn.Sequential:
    """Return a ResNet; ``width`` is 64 in the paper."""
    counts, bottleneck = _BLOCKS[depth]
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = width
    for stage, count in enumerate(counts):
        for block in range(count):
            layers.append(Block(before, width << stage, 2 if stage and not block else 1, bottleneck))
            before = (width << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def main() -> None:
    """Measure the scaling, then train."""
    parser = harness.options(__doc__ or "")
    add = parser.add_argument
    add("--depth", type=int, choices=_BLOCKS, default=50)
    add("--width", type=int, default=64)
    add("--classes", type=int, default=1000)
    add("--pixels", type=int, default=224)
    add("--measure", type=int, default=20, help="steps of each measurement")
    args = parser.parse_args()
    training = harness.Training(args, any_world=True)
    rank = training.rank
    plain = resnet(args.depth, args.width, args.classes).to(training.device)
    optimizer = torch.optim.SGD(plain.parameters(), lr=args.learning_rate, momentum=0.9)
    start = replicas.load(training, plain, optimizer)

    def images(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        source = torch.Generator().manual_seed(args.seed + number * rank.world + rank.rank)
        shape = (args.micro_batch, 3, args.pixels, args.pixels)
        labels = torch.randint(args.classes, (args.micro_batch,), generator=source)
        return torch.randn(shape, generator=source).to(training.device), labels.to(training.device)

    def train(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    devices = [rank.local] if args.device == "cuda" else None
    if not start:
        _measure(training, plain, optimizer, images(0), args.measure, devices)
        start = 0
    model = DistributedDataParallel(plain, device_ids=devices)

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        number = start
        while True:
            number += 1
            yield images(number)

    training.loop(start, batches(), lambda _n, batch: train(model, batch), replicas.writer(training, plain, optimizer))


def _measure(
    training: harness.Training,
    plain: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, torch.Tensor],
    steps: int,
    devices: list[int] | None,
) -> None:
    """Report images per second on one node, two, four and so on, and the efficiency against one node.

    The efficiency of all nodes is also in ``scaling.json`` of the job's folder, for ``hpcnode train report``.
    """
    rank = training.rank
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    per_node = int(_largest(training, rank.local)) + 1
    nodes = max(rank.world // per_node, 1)
    counts = [count for count in (1 << power for power in range(20)) if count < nodes] + [nodes]
    alone = 0.0
    for count in counts:
        members = list(range(count * per_node))
        group = dist.new_group(members)
        if rank.rank in members:
            model = DistributedDataParallel(plain, device_ids=devices, process_group=group)
            for step in range(steps + 3):
                if step == 3:
                    dist.barrier(group)
                    begun = time.perf_counter()
                loss = F.cross_entropy(model(batch[0]), batch[1])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if training.device.type == "cuda":
                torch.cuda.synchronize()
            dist.barrier(group)
            rate = training.args.micro_batch * len(members) * steps / (time.perf_counter() - begun)
            alone = alone or rate
            efficiency = rate / alone / count
            training.say(f"{count} nodes: {rate:.1f} images/s, scaling efficiency {efficiency:.1%}")
        dist.barrier()
    if training.is_first:
        with open(f"{training.args.job}/scaling.json", "w", encoding="ascii") as file:
            json.dump({"nodes": nodes, "efficiency": efficiency}, file)
    # The measurement must not change what is trained.
    plain.load_state_dict(before)
    optimizer.state.clear()


def _largest(training: harness.Training, number: int) -> float:
    found = torch.tensor([number], device=training.device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


if __name__ == "__main__":
    main()
