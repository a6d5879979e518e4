# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checkpoints of replicas, which all have the same state: each node writes one file, and any of them can be loaded."""

from __future__ import annotations

import glob
from collections.abc import Callable

import harness
import torch
from torch import nn


def writer(
    training: harness.Training,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler | None = None,
) -> Callable[[str], None]:
    """Return what writes a checkpoint into a folder."""

    def write(folder: str) -> None:
        if training.is_first if training.args.shared else training.rank.local == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            if scaler and scaler.is_enabled():
                state["scaler"] = scaler.state_dict()
            torch.save(state, f"{folder}/node{training.rank.node_id}.pt")

    return write


def load(
    training: harness.Training,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler | None = None,
) -> int:
    """Load the newest checkpoint that all ranks have, and return its step; 0 if there is none."""
    step = training.newest()
    if step:
        path = sorted(glob.glob(f"{glob.escape(training.folder(step))}/node*.pt"))[0]
        state = torch.load(path, map_location=training.device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        # A checkpoint of an earlier release, or of another precision, has none.
        if scaler and "scaler" in state:
            scaler.load_state_dict(state["scaler"])
    return step
