# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A transformer's shape: its parameters, and the floating point operations of a step.

Formulas: arXiv 2104.04473 (the paper of SC21), for models like GPT. Other shapes (grouped queries, gated layers) are
counted in the same way: two operations per parameter of a matrix and per token, four per pair of tokens and hidden
unit. Attention is counted in full, although a causal mask leaves half of it out; newer releases of Megatron-LM halve
it. Do not compare rates of the two kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NONE, SELECTIVE, FULL = RECOMPUTATIONS = ("none", "selective", "full")
"""What is computed again in the backward pass: nothing, the attention only, or each complete layer."""


@dataclass(frozen=True)
class Model:
    """The shape of a decoder.

    :ivar layers: number of layers.
    :ivar hidden: hidden size.
    :ivar heads: number of attention heads.
    :ivar sequence: tokens of a sample.
    :ivar vocabulary: number of tokens known.
    :ivar kv_heads: number of heads of keys and values; None if as many as ``heads``.
    :ivar ffn: inner size of the feed-forward layers; None for four times ``hidden``.
    :ivar gated: whether the feed-forward layers are gated (SwiGLU), with three matrices in place of two. Such models
        have neither biases nor learned positions, and their output matrix is not the input's.
    :ivar flash: whether the attention's matrix of all pairs of tokens is never stored (FlashAttention).
    """

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int = 51200
    kv_heads: int | None = None
    ffn: int | None = None
    gated: bool = False
    flash: bool = False

    @property
    def inner(self) -> int:
        """The inner size of the feed-forward layers."""
        return self.ffn or 4 * self.hidden

    @property
    def kv_width(self) -> int:
        """The width of keys and of values."""
        return self.hidden // self.heads * (self.kv_heads or self.heads)

    @property
    def layer_matrices(self) -> int:
        """The parameters of one layer's matrices."""
        attention = 2 * self.hidden**2 + 2 * self.hidden * self.kv_width
        return attention + (3 if self.gated else 2) * self.hidden * self.inner

    @property
    def layer_parameters(self) -> int:
        """The parameters of one layer."""
        # Two norms; with biases, 13 vectors of the hidden size.
        return self.layer_matrices + (2 if self.gated else 13) * self.hidden

    @property
    def embedding(self) -> int:
        """The parameters of the input's matrix, with the learned positions."""
        return (self.vocabulary + (0 if self.gated else self.sequence)) * self.hidden

    @property
    def output(self) -> int:
        """The parameters of an output matrix of its own; 0 if the model uses the input's."""
        return self.vocabulary * self.hidden if self.gated else 0

    @property
    def parameters(self) -> int:
        """All parameters. For models like GPT, ``12·l·h²·(1 + 13/12h + (V+s)/12lh)``."""
        return self.layers * self.layer_parameters + self.embedding + self.output

    def flops(self, batch: float, recomputation: str = NONE) -> float:
        """Return the operations of a step of ``batch`` samples.

        For models like GPT, ``72·B·s·l·h²·(1 + s/6h + V/12lh)`` without recomputation, and
        ``96·B·s·l·h²·(1 + s/6h + V/16lh)`` with full recomputation. The backward pass is twice the forward pass.
        """
        tokens = batch * self.sequence
        matrices = 2 * tokens * self.layers * self.layer_matrices
        attention = 4 * tokens * self.layers * self.sequence * self.hidden
        logits = 2 * tokens * self.vocabulary * self.hidden
        again = {NONE: 0.0, SELECTIVE: attention, FULL: matrices + attention}[recomputation]
        return 3 * (matrices + attention + logits) + again

    def with_sequence(self, sequence: int) -> Model:
        """Return the same model for samples of another length."""
        return replace(self, sequence=sequence)
