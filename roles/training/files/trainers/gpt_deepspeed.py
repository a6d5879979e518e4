# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decoder with DeepSpeed: ZeRO, with the optimizer and activations in host memory or on NVMe."""

from __future__ import annotations

import argparse
import os
from typing import Any

import harness
import torch
from gpt import Gpt, Tokens, add_shape, shape_of


def config_of(args: argparse.Namespace, micro_batches: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration for the options."""
    zero: dict[str, Any] = {"stage": args.zero}
    where = {"device": "cpu", "pin_memory": args.device == "cuda"}
    if args.offload_nvme:
        where = {"device": "nvme", "nvme_path": args.nvme or args.run, "pin_memory": args.device == "cuda"}
    if args.offload_optimizer or args.offload_nvme:
        zero["offload_optimizer"] = where
    if args.zero == 3:
        # With one checkpoint folder per node, each node has its own parts only.
        zero["stage3_gather_16bit_weights_on_model_save"] = False
    return {
        "train_micro_batch_size_per_gpu": args.micro_batch,
        "gradient_accumulation_steps": micro_batches,
        "zero_optimization": zero,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        # DeepSpeed's own Adam is compiled at the start, which needs ninja and a compiler on every node.
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": args.learning_rate, "torch_adam": args.device == "cpu"},
        },
        "zero_allow_untested_optimizer": True,
        "checkpoint": {"use_node_local_storage": not args.shared},
        "steps_per_print": 1_000_000,
        "wall_clock_breakdown": False,
    }


def save_states(engine: Any, path: str) -> None:
    """Write what DeepSpeed leaves out of a checkpoint if the optimizer is on NVMe.

    These are the names of the large states, whose files it copies, Adam's steps, and parts that are too small for NVMe.
    """
    kept = [
        {
            "part": part.data if part.numel() else None,
            "states": {
                name: None if torch.is_tensor(value) and not value.numel() else value
                for name, value in engine.optimizer.optimizer.state[part].items()
            },
        }
        for part in engine.optimizer.fp32_partitioned_groups_flat
    ]
    torch.save(kept, path)


def restore_states(engine: Any, path: str) -> None:
    """Read what ``save_states`` wrote, before DeepSpeed loads the checkpoint.

    DeepSpeed then also reads the files of the large states. Without their names, a resumed training would begin with
    new ones.
    """
    zero = engine.optimizer
    for number, kept in enumerate(torch.load(path, weights_only=True)):
        part = zero.fp32_partitioned_groups_flat[number]
        if kept["part"] is not None:
            part.data.copy_(kept["part"])
        for name, value in kept["states"].items():
            # The memory is never touched: the swapped tensor replaces it.
            empty = torch.empty(zero.fp16_partitioned_groups_flat_numel[number], dtype=part.dtype)
            zero.optimizer.state[part][name] = empty if value is None else value


def wrap(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model as DeepSpeed gets it; ``gpt_ort`` replaces this."""
    return model


def main(prepare: Any = wrap) -> None:
    """Train.

    :param prepare: changes the model before DeepSpeed gets it.
    """
    parser = harness.options(__doc__ or "")
    add_shape(parser)
    add = parser.add_argument
    add("--offload-optimizer", action="store_true")
    add("--offload-activations", action="store_true")
    add("--offload-nvme", action="store_true")
    add("--nvme", default="", help="folder on the NVMe disks; by default that of the checkpoints")
    args = parser.parse_args()
    if args.device == "cpu":
        # On CPUs DeepSpeed would compile a communication library at the start.
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    if args.device == "cpu":
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    training = harness.Training(args)
    shape, rank = shape_of(args), training.rank
    os.environ.update(RANK=str(rank.rank), WORLD_SIZE=str(rank.world), LOCAL_RANK=str(rank.local))
    deepspeed.init_distributed(dist_backend="nccl" if args.device == "cuda" else "gloo", verbose=False)
    config = config_of(args, training.micro_batches)
    with deepspeed.zero.Init(config_dict_or_path=config, enabled=args.zero == 3):
        model = prepare(Gpt(shape, args.offload_activations))
    engine, *_rest = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def states_in(folder: str) -> str:
        return f"{folder}/optimizer-{rank.rank}.pt"

    start = training.newest()
    if start:
        # The file "latest" is written by the first rank only, so the checkpoint is named.
        if args.offload_nvme:
            restore_states(engine, states_in(training.folder(start)))
        loaded, _state = engine.load_checkpoint(args.run, tag=f"step{start}")
        if loaded is None:
            harness.refuse(f"DeepSpeed cannot load {training.folder(start)}")

    def step(_number: int, batch: list[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros((), device=training.device)
        for part in batch:
            loss = engine(part.to(training.device))
            engine.backward(loss)
            engine.step()
            total += loss.detach().float() / len(batch)
        return total

    def write(folder: str) -> None:
        engine.save_checkpoint(os.path.dirname(folder), tag=os.path.basename(folder))
        if args.offload_nvme:
            save_states(engine, states_in(folder))

    data = Tokens(args.data, shape, args.seed)
    batches = data.batches(start, rank.rank, rank.world, args.micro_batch, training.micro_batches)
    training.loop(start, batches, step, write)


if __name__ == "__main__":
    main()
