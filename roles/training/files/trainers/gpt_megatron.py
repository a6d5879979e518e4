# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decoder with Megatron Core: tensor, pipeline and data parallelism, its schedules and its optimizer.

On CPUs, for the size tiny only, PyTorch's optimizer replaces Megatron's, which needs CUDA.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import harness
import torch
import torch.distributed as dist
from gpt import Samples, Tokens, add_shape, shape_of
from preprocess_data import Corpus, prefix_in


class _NoRandomStates:
    """Replaces the tracker of CUDA's random states on CPUs, where dropout is off."""

    def fork(self, name: str = "") -> contextlib.AbstractContextManager[None]:
        del name
        return contextlib.nullcontext()

    def is_initialized(self) -> bool:
        return True


def _without_cuda() -> None:
    """Let Megatron Core run on CPUs: it calls these whatever the device of its model is."""
    from megatron.core.tensor_parallel import random

    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment, return-value]
    torch.cuda.synchronize = lambda *_given: None
    torch.cuda.set_device = lambda *_given: None
    tracker = _NoRandomStates()
    for module in (random, *_users_of_the_tracker()):
        module.get_cuda_rng_tracker = lambda *_given, **_named: tracker


def _users_of_the_tracker() -> Iterator[Any]:
    from megatron.core import tensor_parallel
    from megatron.core.tensor_parallel import layers
    from megatron.core.transformer import dot_product_attention

    yield from (tensor_parallel, layers, dot_product_attention.tensor_parallel)


def main() -> None:
    """Train."""
    parser = harness.options(__doc__ or "")
    add_shape(parser)
    add = parser.add_argument
    add("--tensor", type=int, default=1)
    add("--pipeline", type=int, default=1)
    add("--interleave", type=int, default=1)
    add("--sequence-parallel", action="store_true")
    add("--distributed-optimizer", action="store_true")
    add("--fp32-gradients", action="store_true")
    args = parser.parse_args()
    if args.interleave > 1:
        harness.refuse("this trainer has one part of the model per stage: leave out --interleave")
    if args.device == "cpu" and args.pipeline > 1:
        harness.refuse("on CPUs this trainer has one stage: leave out --pipeline")
    if args.distributed_optimizer and not args.shared:
        harness.refuse(
            "Megatron's own format is one folder of all nodes: give --shared and a folder that all nodes see, or leave "
            "out --distributed-optimizer"
        )
    training = harness.Training(args, replica=args.tensor * args.pipeline)
    from megatron.core import parallel_state

    if args.device == "cpu":
        _without_cuda()
    parallel_state.initialize_model_parallel(args.tensor, args.pipeline)
    replicas = parallel_state.get_data_parallel_world_size()
    trained = _Trained(args, training, replicas)
    start = training.newest()
    if start:
        trained.load(training.folder(start))
    shape = shape_of(args)
    rank = parallel_state.get_data_parallel_rank()
    data: Samples = Tokens("", shape, args.seed)
    if args.data:
        prefix = prefix_in(args.data)
        if not prefix:
            harness.refuse(f"{args.data} has no data set (*.idx): make one with preprocess_data.py")
        data = Corpus(prefix, args.sequence, args.vocabulary, args.steps * training.samples, args.seed)
    batches = data.batches(start, rank, replicas, args.micro_batch, training.micro_batches)
    training.loop(start, batches, trained.step, trained.save)


class _Trained:
    """The model with its optimizer.

    :param half: whether the model computes in bf16.
    """

    def __init__(
        self, args: argparse.Namespace, training: harness.Training, replicas: int, half: bool | None = None
    ) -> None:
        from megatron.core import parallel_state
        from megatron.core.models.gpt import GPTModel, gpt_layer_specs
        from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
        from megatron.core.transformer.module import Float16Module
        from megatron.core.transformer.transformer_config import TransformerConfig

        self.args, self.training, self.replicas = args, training, replicas
        on_gpu = args.device == "cuda"
        half = on_gpu if half is None else half
        dtype = torch.bfloat16 if half else torch.float32
        if args.sequence_parallel and not gpt_layer_specs.HAVE_APEX:
            harness.refuse("--sequence-parallel needs the norms of Apex, which is not installed: PyTorch's refuse it")
        if on_gpu:
            model_parallel_cuda_manual_seed(args.seed)
        torch.manual_seed(args.seed)
        config = TransformerConfig(
            num_layers=args.layers,
            hidden_size=args.hidden,
            num_attention_heads=args.heads,
            num_query_groups=args.kv_heads or None,
            ffn_hidden_size=args.ffn or 4 * args.hidden,
            gated_linear_unit=args.gated,
            tensor_model_parallel_size=args.tensor,
            pipeline_model_parallel_size=args.pipeline,
            sequence_parallel=args.sequence_parallel,
            pipeline_dtype=dtype,
            bf16=half,
            params_dtype=dtype,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            use_cpu_initialization=not on_gpu,
            bias_activation_fusion=on_gpu,
            bias_dropout_fusion=on_gpu,
            # Only Apex, or a build of its kernels, has this module.
            masked_softmax_fusion=half and importlib.util.find_spec("scaled_masked_softmax_cuda") is not None,
            gradient_accumulation_fusion=False,
            recompute_granularity=None if args.recomputation == "none" or not on_gpu else args.recomputation,
            recompute_method="uniform" if args.recomputation == "full" and on_gpu else None,
            recompute_num_layers=1 if args.recomputation == "full" and on_gpu else None,
        )
        self.model: Any = GPTModel(
            config,
            gpt_layer_specs.get_gpt_layer_local_spec(),
            args.vocabulary,
            args.sequence,
            pre_process=parallel_state.is_pipeline_first_stage(),
            post_process=parallel_state.is_pipeline_last_stage(),
            share_embeddings_and_output_weights=not args.gated,
        )
        if half:
            # Embeddings of positions, and norms, are fp32 whatever the configuration says.
            self.model = Float16Module(config, self.model)
        self.plain = self.model
        self._part, self._writes = self._place()
        if on_gpu:
            self._for_gpus(config)
        else:
            self.optimizer: Any = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)

    def _place(self) -> tuple[str, bool]:
        """Return the file name of this rank's part of the model, and whether this rank is the one that writes it.

        Replicas have the same part, and one of them writes it: one for each folder.
        """
        from megatron.core import parallel_state

        tensor = parallel_state.get_tensor_model_parallel_rank()
        stage = parallel_state.get_pipeline_model_parallel_rank()
        name = f"tensor{tensor}of{self.args.tensor}-stage{stage}of{self.args.pipeline}.pt"
        place = ("" if self.args.shared else self.training.rank.node, name)
        places: list[Any] = [None] * self.training.rank.world
        dist.all_gather_object(places, place)
        return name, places.index(place) == self.training.rank.rank

    def _for_gpus(self, config: Any) -> None:
        from megatron.core.distributed import (
            DistributedDataParallel,
            DistributedDataParallelConfig,
            finalize_model_grads,
        )
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

        args = self.args
        self.plain = self.model.cuda()
        parallel = DistributedDataParallelConfig(
            grad_reduce_in_fp32=True,
            overlap_grad_reduce=True,
            use_distributed_optimizer=args.distributed_optimizer,
        )
        self.model = DistributedDataParallel(config, parallel, self.plain)
        config.finalize_model_grads_func = finalize_model_grads
        wanted = OptimizerConfig(
            optimizer="adam",
            lr=args.learning_rate,
            bf16=True,
            use_distributed_optimizer=args.distributed_optimizer,
            clip_grad=1.0,
        )
        self.optimizer = get_megatron_optimizer(wanted, [self.model])

    def step(self, _number: int, batch: list[torch.Tensor]) -> torch.Tensor:
        """Train one step, and return the mean loss of this replica."""
        self.optimizer.zero_grad()
        parts = self._on_gpus(batch) if self.args.device == "cuda" else self._on_cpus(batch)
        self.optimizer.step()
        loss = torch.zeros(1, device=self.training.device)
        for part in parts:
            loss += part["loss"] / len(parts)
        return self._of_last_stage(loss)

    def _on_gpus(self, batch: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        from megatron.core.pipeline_parallel import get_forward_backward_func

        self.model.zero_grad_buffer()
        parts: list[dict[str, torch.Tensor]] = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=iter(batch),
            model=[self.model],
            num_microbatches=self.training.micro_batches,
            seq_length=self.args.sequence,
            micro_batch_size=self.args.micro_batch,
            forward_only=False,
        )
        return parts

    def _on_cpus(self, batch: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """Run the micro-batches one after the other: Megatron's schedules allocate on the GPU."""
        parts = []
        for part in batch:
            output, mean = self._forward(iter([part]), self.model)
            value, reported = mean(output)
            (value / len(batch)).backward()
            parts.append(reported)
        self._reduce_gradients()
        return parts

    def _forward(self, data: Iterator[torch.Tensor], model: Any) -> tuple[torch.Tensor, Any]:
        tokens = next(data).to(self.training.device)
        inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        positions = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
        size = inputs.shape[1]
        mask = torch.triu(torch.ones(1, 1, size, size, dtype=torch.bool, device=inputs.device), 1)
        losses = model(inputs, positions, mask, labels=labels)

        def mean(output: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            value = output.float().mean()
            return value, {"loss": value.detach().reshape(1)}

        return losses, mean

    def _of_last_stage(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss, which only the last stage knows, on all ranks of the replica."""
        from megatron.core import parallel_state

        if self.args.pipeline > 1:
            group = parallel_state.get_pipeline_model_parallel_group()
            last = parallel_state.get_pipeline_model_parallel_last_rank()
            dist.broadcast(loss, last, group)
        return loss

    def _reduce_gradients(self) -> None:
        from megatron.core import parallel_state

        if self.replicas > 1:
            for one in self.plain.parameters():
                if one.grad is not None:
                    dist.all_reduce(one.grad, group=parallel_state.get_data_parallel_group())
                    one.grad /= self.replicas

    def save(self, folder: str) -> None:
        """Write this rank's part, once for all replicas on a node.

        With the distributed optimizer, all ranks write Megatron's own sharded format.
        """
        if self.args.distributed_optimizer:
            from megatron.core import dist_checkpointing

            dist_checkpointing.save(self._sharded(), folder)
            return
        if self._writes:
            state = {"model": self.plain.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, f"{folder}/{self._part}")

    def load(self, folder: str) -> None:
        """Read what ``save`` wrote."""
        if self.args.distributed_optimizer:
            from megatron.core import dist_checkpointing

            state = dist_checkpointing.load(self._sharded(is_loading=True), folder)
        else:
            path = f"{folder}/{self._part}"
            if not os.path.exists(path):
                # As earlier releases named it.
                path = f"{folder}/rank{self.training.rank.rank}.pt"
            if not os.path.exists(path):
                path = f"{folder}/{self._part}"
                harness.refuse(f"{path} is missing: this checkpoint is for another layout or other nodes")
            # Megatron's states contain objects of its own; the folder is the job's user's.
            state = torch.load(path, map_location=self.training.device, weights_only=False)
        self.plain.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _sharded(self, is_loading: bool = False) -> dict[str, Any]:
        """Return what Megatron writes or reads. A new optimizer has no moments yet: it asks for them when it loads."""
        model = self.plain.sharded_state_dict()
        return {"model": model, "optimizer": self.optimizer.sharded_state_dict(model, is_loading=is_loading)}


if __name__ == "__main__":
    main()
