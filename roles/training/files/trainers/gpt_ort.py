# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decoder with ONNX Runtime's training module, then DeepSpeed; or with torch.compile in its place.

onnxruntime-training ended in 2024 and does not work with newer releases of PyTorch, so this needs a frozen image that
has both. ORTModule must wrap the model before DeepSpeed does.
"""

from __future__ import annotations

import sys

import gpt_deepspeed
import torch


def main() -> None:
    """Train."""
    compiler = "ort"
    for word in [word for word in sys.argv if word.startswith("--compiler=")]:
        compiler = word.partition("=")[2]
        sys.argv.remove(word)
    if compiler not in ("ort", "torch"):
        gpt_deepspeed.harness.refuse(f"--compiler is ort or torch, not {compiler!r}")
    gpt_deepspeed.main(_with_ort if compiler == "ort" else torch.compile)


def _with_ort(model: torch.nn.Module) -> torch.nn.Module:
    from onnxruntime.training.ortmodule import ORTModule

    wrapped: torch.nn.Module = ORTModule(model)
    return wrapped


if __name__ == "__main__":
    main()
