# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text as Megatron's indexed data set: writes it from JSON lines, and reads it for a training.

    python preprocess_data.py --input corpus.jsonl --output-prefix data/corpus

The tool of this name is part of Megatron-LM's repository and not of the package megatron-core, which has the format
only. This one makes a token of each byte of UTF-8, so it needs no vocabulary file. A training also reads what
Megatron-LM's tool has written, with a model of that vocabulary.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from gpt import Samples

END_OF_DOCUMENT = 256
"""The token after each document; bytes are 0 to 255."""


def main() -> None:
    """Write a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--input", required=True, help="one JSON object per line")
    add("--output-prefix", required=True, help="path without .bin and .idx")
    add("--json-key", default="text", help="the key with the text (text)")
    args = parser.parse_args()
    documents, tokens = write(args.input, args.output_prefix, args.json_key)
    sys.stdout.write(f"{documents} documents, {tokens} tokens\n")


def write(path: str, prefix: str, key: str) -> tuple[int, int]:
    """Write the data set of a file, and return the number of its documents and tokens.

    Both files get their names at the end, the index last, so that an interrupted run leaves no data set.
    """
    import numpy
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(f"{prefix}.bin.part", dtype=numpy.uint16)
    documents = tokens = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)[key]
                found = [*content.encode("utf-8"), END_OF_DOCUMENT]
            except (ValueError, KeyError, TypeError, AttributeError):
                raise SystemExit(f"{path}, line {number}: it is no JSON object with a text {key!r}") from None
            builder.add_document(found, [len(found)])
            documents += 1
            tokens += len(found)
    if not documents:
        raise SystemExit(f"{path} has no documents")
    builder.finalize(f"{prefix}.idx.part")
    os.replace(f"{prefix}.bin.part", f"{prefix}.bin")
    os.replace(f"{prefix}.idx.part", f"{prefix}.idx")
    return documents, tokens


def prefix_in(folder: str) -> str:
    """Return the prefix of the data set in a folder; empty if there is none."""
    found = sorted(glob.glob(f"{glob.escape(folder)}/*.idx")) if folder else []
    if len(found) > 1:
        raise SystemExit(f"{folder} has {len(found)} data sets (*.idx): name a folder with one of them")
    return found[0][: -len(".idx")] if found else ""


@dataclass(frozen=True)
class _Tokenizer:
    """What Megatron's data set asks of a tokenizer."""

    vocab_size: int
    eod: int = END_OF_DOCUMENT
    unique_identifiers: dict[str, str] = field(default_factory=dict)


class Corpus(Samples):
    """Samples of a data set, in Megatron's order: documents and samples are shuffled, for as many epochs as needed.

    The order is that of the seed and of the number of samples. It is kept in memory, so nodes share no cache.

    :param samples: samples of the complete training.
    """

    def __init__(self, prefix: str, sequence: int, vocabulary: int, samples: int, seed: int) -> None:
        import numpy
        from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
        from megatron.core.datasets.utils import Split

        config = GPTDatasetConfig(
            random_seed=seed,
            sequence_length=sequence,
            tokenizer=_Tokenizer(vocabulary),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
        )
        source = GPTDataset.build_low_level_dataset(prefix, config)
        every = numpy.arange(len(source), dtype=numpy.int32)
        self._samples: Any = GPTDataset(source, prefix, every, samples, Split.train, config)
        self._vocabulary, self._prefix = vocabulary, prefix

    def sample(self, number: int) -> torch.Tensor:
        """Return a sample of one more token than the sequence."""
        found = self._samples[number]
        tokens = torch.cat([found["tokens"], found["labels"][-1:]])
        if int(tokens.max()) >= self._vocabulary:
            raise SystemExit(f"{self._prefix} has token {int(tokens.max())}, the model {self._vocabulary} tokens")
        return tokens


if __name__ == "__main__":
    main()
