# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BERT: an encoder that restores masked tokens, with DistributedDataParallel."""

from __future__ import annotations

import harness
import replicas
import torch
import torch.nn.functional as F
from gpt import Shape, Tokens, add_shape, shape_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

_MASKED = 0.15
_MASK_TOKEN = 0


class Bert(nn.Module):
    """An encoder; ``forward`` returns the mean loss of the masked tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.sequence, shape.hidden)
        layer = nn.TransformerEncoderLayer(
            shape.hidden, shape.heads, shape.ffn, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.head = nn.Linear(shape.hidden, shape.vocabulary)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        inputs = tokens.masked_fill(mask, _MASK_TOKEN)
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        return F.cross_entropy(self.head(self.encoder(x))[mask], tokens[mask])


def half_of(device: str) -> torch.dtype | None:
    """Return the type that the model computes in; None for fp32."""
    if device == "cpu":
        return None
    # GPUs before Ampere have no units for bf16, which PyTorch then emulates.
    return torch.float16 if torch.cuda.get_device_capability() < (8, 0) else torch.bfloat16


def main() -> None:
    """Train."""
    parser = harness.options(__doc__ or "")
    add_shape(parser)
    args = parser.parse_args()
    training = harness.Training(args, any_world=True)
    shape, rank = shape_of(args), training.rank
    plain = Bert(shape).to(training.device)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=args.learning_rate)
    half = half_of(args.device)
    # Small gradients would be 0 in fp16.
    scaler = torch.amp.GradScaler(args.device, enabled=half == torch.float16)
    start = replicas.load(training, plain, optimizer, scaler)
    model = DistributedDataParallel(plain, device_ids=[rank.local] if args.device == "cuda" else None)

    def step(number: int, batch: list[torch.Tensor]) -> torch.Tensor:
        # The mask depends on the step and the rank, so a resumed training masks the same tokens.
        source = torch.Generator().manual_seed(args.seed + number * rank.world + rank.rank)
        total = torch.zeros((), device=training.device)
        for position, part in enumerate(batch):
            tokens = part[:, 1:].to(training.device)
            mask = (torch.rand(tokens.shape, generator=source) < _MASKED).to(training.device)
            mask[:, 0] = True
            model.require_backward_grad_sync = position == len(batch) - 1
            with torch.autocast(args.device, half, enabled=half is not None):
                loss = model(tokens, mask) / len(batch)
            scaler.scale(loss).backward()
            total += loss.detach()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return total

    data = Tokens(args.data, shape, args.seed)
    batches = data.batches(start, rank.rank, rank.world, args.micro_batch, training.micro_batches)
    training.loop(start, batches, step, replicas.writer(training, plain, optimizer, scaler))


if __name__ == "__main__":
    main()
