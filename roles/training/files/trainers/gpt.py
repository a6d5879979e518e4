# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decoder like GPT or Llama in plain PyTorch, and tokens to train it with."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    """The shape of a decoder; see ``hpcnode train plan``."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    kv_heads: int
    ffn: int
    gated: bool
    recompute: bool


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a shape and of the layout."""
    add = parser.add_argument
    for name in ("layers", "hidden", "heads", "sequence", "vocabulary"):
        add(f"--{name}", type=int, required=True)
    add("--kv-heads", type=int, default=0)
    add("--ffn", type=int, default=0)
    add("--gated", action="store_true")
    add("--flash", action="store_true", help="accepted for every model: attention here never stores all pairs")
    add("--recomputation", choices=("none", "selective", "full"), default="full")
    add("--zero", type=int, default=0)


def shape_of(args: argparse.Namespace) -> Shape:
    """Return the shape of the options."""
    return Shape(
        args.layers,
        args.hidden,
        args.heads,
        args.sequence,
        args.vocabulary,
        args.kv_heads or args.heads,
        args.ffn or 4 * args.hidden,
        args.gated,
        args.recomputation == "full",
    )


class Attention(nn.Module):
    """Causal attention with grouped heads of keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = shape.heads, shape.kv_heads, shape.hidden // shape.heads
        self.q = nn.Linear(shape.hidden, shape.hidden, bias=not shape.gated)
        self.kv = nn.Linear(shape.hidden, 2 * self.kv_heads * self.width, bias=not shape.gated)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=not shape.gated)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, h = x.shape
        q = self.q(x).view(b, s, self.heads, self.width).transpose(1, 2)
        k, v = self.kv(x).view(b, s, 2, self.kv_heads, self.width).permute(2, 0, 3, 1, 4)
        if self.kv_heads != self.heads:
            times = self.heads // self.kv_heads
            k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(b, s, h))


class Feed(nn.Module):
    """The feed-forward layer, plain or gated."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.ffn, bias=not shape.gated)
        self.gate = nn.Linear(shape.hidden, shape.ffn, bias=False) if shape.gated else None
        self.down = nn.Linear(shape.ffn, shape.hidden, bias=not shape.gated)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.down(inner)


class Block(nn.Module):
    """A layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
        self.attention, self.feed = Attention(shape), Feed(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.feed(self.norm_2(x))


class Gpt(nn.Module):
    """A decoder; ``forward`` returns the mean loss of predicting each next token.

    :param offload: whether the inputs of the layers wait for the backward pass in the host's memory.
    """

    def __init__(self, shape: Shape, offload: bool = False) -> None:
        super().__init__()
        self.recompute, self.offload = shape.recompute, offload
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.sequence, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _layer in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.head_std = 0.02 / math.sqrt(2 * shape.layers)
        # By apply: ZeRO-3 divides each part of the model when it is made, and collects it again for this.
        self.apply(self.initialize)

    def initialize(self, part: nn.Module) -> None:
        """Give a part of the model its first parameters; for ``apply``."""
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=self.head_std if part is self.head else 0.02)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.blocks:
            x = self._recomputed(block, x) if self.recompute and self.training else block(x)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def _recomputed(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Return the output of a layer that keeps its input only."""
        on_host = torch.autograd.graph.save_on_cpu(pin_memory=x.is_cuda) if self.offload else contextlib.nullcontext()
        with on_host:
            output: torch.Tensor = checkpoint(block, x, use_reentrant=False)
        return output


class Samples:
    """Samples by number; each number has the same sample on all ranks and in each run."""

    def sample(self, number: int) -> torch.Tensor:
        """Return a sample of one more token than the sequence."""
        raise NotImplementedError

    def batches(
        self, start: int, rank: int, world: int, micro_batch: int, micro_batches: int
    ) -> Iterator[list[torch.Tensor]]:
        """Yield the micro-batches of each step after ``start``, for one of ``world`` replicas."""
        step = start
        while True:
            first = (step * world + rank) * micro_batch * micro_batches
            yield [
                torch.stack([self.sample(first + part * micro_batch + one) for one in range(micro_batch)])
                for part in range(micro_batches)
            ]
            step += 1


class Tokens(Samples):
    """Samples by their number, so that a resumed training reads what an uninterrupted one would.

    With a folder, its files are read as one text of bytes. Without one, tokens follow a rule that a model can learn.
    """

    def __init__(self, folder: str, shape: Shape, seed: int) -> None:
        self._shape, self._seed = shape, seed
        self._text: torch.Tensor | None = None
        if folder:
            names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
            parts = []
            for name in names:
                with open(f"{folder}/{name}", "rb") as file:
                    parts.append(file.read())
            content = b"".join(parts)
            if len(content) <= shape.sequence + 1:
                raise SystemExit(f"{folder} has {len(content)} bytes, less than one sample")
            self._text = torch.frombuffer(bytearray(content), dtype=torch.uint8)

    def sample(self, number: int) -> torch.Tensor:
        """Return a sample of one more token than the sequence."""
        source = torch.Generator().manual_seed(self._seed * 1_000_003 + number)
        length = self._shape.sequence + 1
        if self._text is not None:
            first = int(torch.randint(len(self._text) - length, (1,), generator=source).item())
            return self._text[first : first + length].long() % self._shape.vocabulary
        start, stride = torch.randint(1, self._shape.vocabulary, (2,), generator=source).tolist()
        return (start + stride % 7 * torch.arange(length)) % self._shape.vocabulary
