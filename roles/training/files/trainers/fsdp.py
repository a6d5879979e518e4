# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decoder with PyTorch's own FSDP2: parameters, gradients and optimizer divided among all ranks."""

from __future__ import annotations

import os

import harness
import torch
import torch.distributed.checkpoint as dcp
from gpt import Gpt, Tokens, add_shape, shape_of
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def _is_whole(folder: str) -> bool:
    """Return whether a folder has the parts of all ranks: a node has only its own ones of what was not published."""
    try:
        parts = dcp.FileSystemReader(folder).read_metadata().storage_data.values()
    except (OSError, EOFError):
        return False
    return all(os.path.exists(f"{folder}/{part.relative_path}") for part in parts)


def main() -> None:
    """Train."""
    parser = harness.options(__doc__ or "")
    add_shape(parser)
    args = parser.parse_args()
    training = harness.Training(args, any_world=True)
    shape, rank = shape_of(args), training.rank
    mesh = init_device_mesh(args.device, (rank.world,))
    # On CPUs fp32 is both faster and exact enough to compare losses.
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = {"mp_policy": half} if args.device == "cuda" else {}
    # Neither the node nor a GPU has room for all parameters of a large model, so each rank makes only its own.
    with torch.device("meta"):
        model = Gpt(shape)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **policy)
    fully_shard(model, mesh=mesh, **policy)
    model.to_empty(device=training.device)
    # Ranks initialise different parts of the same parameter.
    torch.manual_seed(args.seed + rank.rank)
    model.apply(model.initialize)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    def state() -> dict[str, object]:
        model_state, optimizer_state = get_state_dict(model, optimizer)
        return {"model": model_state, "optimizer": optimizer_state}

    start = training.newest(_is_whole)
    if start:
        loaded = state()
        dcp.load(loaded, checkpoint_id=training.folder(start))
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])

    def step(_number: int, batch: list[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros((), device=training.device)
        for position, part in enumerate(batch):
            # Gradients are reduced once per step.
            model.set_requires_gradient_sync(position == len(batch) - 1)
            loss = model(part.to(training.device)) / len(batch)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    def write(folder: str) -> None:
        try:
            dcp.save(state(), checkpoint_id=folder)
        except CheckpointException as error:
            # It is no Exception, and has those of all ranks.
            raise RuntimeError("; ".join(f"rank {rank}: {one[0]}" for rank, one in error.failures.items())) from error

    data = Tokens(args.data, shape, args.seed)
    batches = data.batches(start, rank.rank, rank.world, args.micro_batch, training.micro_batches)
    training.loop(start, batches, step, write)


if __name__ == "__main__":
    main()
