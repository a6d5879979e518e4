# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Sets of CPUs, and their four text formats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+)/(\d+))?)?")
# Higher than any kernel's limit (NR_CPUS is at most 8192): a typing error must not fill the memory.
_HIGHEST = 1 << 16


class CpuSetError(ValueError):
    """The text is not a valid set of CPUs; the message quotes it."""


class CpuSet(frozenset[int]):
    """An immutable set of CPU numbers (or of NUMA node numbers, which have the same format)."""

    @classmethod
    def parse_list(cls, text: str) -> CpuSet:
        """Parse a Linux list: ``0-3,8``, also with strides (``0-31:2/4``); an empty text is the empty set.

        :raises CpuSetError: the list is invalid.
        """
        cpus: set[int] = set()
        # The lists of some kernels, and captured copies of them, end with a NUL.
        for item in text.replace("\n", "").rstrip("\0").split(","):
            if not item.strip():
                continue
            match = _RANGE.fullmatch(item.strip())
            if not match:
                raise CpuSetError(f"{text!r} is not a list of CPUs such as 0-3,8: {item.strip()!r} is not a range.")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first or last >= _HIGHEST:
                raise CpuSetError(f"{text!r} is not a list of CPUs such as 0-3,8: invalid range {item.strip()!r}.")
            used, group = int(match[3] or 1), int(match[4] or 1)
            if not 0 < used <= group:
                raise CpuSetError(f"{text!r} is not a list of CPUs such as 0-3,8: invalid stride in {item.strip()!r}.")
            cpus.update(cpu for cpu in range(first, last + 1) if (cpu - first) % group < used)
        return cls(cpus)

    @classmethod
    def parse_mask(cls, text: str) -> CpuSet:
        """Parse a hexadecimal mask: one number (``0xff``), or the kernel's 32-bit words separated by commas.

        :raises CpuSetError: the mask is invalid.
        """
        words = text.strip().split(",")
        digits = [word.strip().lower().removeprefix("0x") for word in words]
        if not all(re.fullmatch(r"[0-9a-f]+", word) for word in digits):
            raise CpuSetError(f"{text!r} is not a hexadecimal mask of CPUs.")
        if any(len(word) > 8 for word in digits[1:] or ()) or (len(digits) > 1 and len(digits[0]) > 8):
            raise CpuSetError(f"{text!r} is not a mask of CPUs: a word between commas has at most 8 digits.")
        value = 0
        for word in digits:
            value = (value << 32) | int(word, 16) if len(digits) > 1 else int(word, 16)
        if value.bit_length() > _HIGHEST:
            raise CpuSetError(f"{text!r} is not a mask of CPUs: it is too long.")
        return cls(number for number, bit in enumerate(reversed(bin(value)[2:])) if bit == "1")

    def as_list(self) -> str:
        """Return the Linux list, e.g. ``0-3,8``; empty for the empty set."""
        ranges: list[str] = []
        for first, last in _runs(self):
            ranges.append(str(first) if first == last else f"{first}-{last}")
        return ",".join(ranges)

    def as_mask(self) -> str:
        """Return one hexadecimal number without prefix, as srun's ``--cpu-bind=mask_cpu:`` takes it."""
        return f"{self._value():x}"

    def as_words(self, words: int = 1) -> str:
        """Return 32-bit words separated by commas, the highest first, as the kernel and NCCL write affinities.

        :param words: the minimum number of words; a higher CPU number adds words.
        """
        value, needed = self._value(), max(words, (max(self, default=0) // 32) + 1)
        return ",".join(f"{(value >> (32 * index)) & 0xFFFFFFFF:08x}" for index in reversed(range(needed)))

    def __and__(self, other: AbstractSet[object]) -> CpuSet:
        return CpuSet(cpu for cpu in self if cpu in other)

    def __or__(self, other: AbstractSet[int]) -> CpuSet:  # type: ignore[override]
        return CpuSet([*self, *other])

    def __sub__(self, other: AbstractSet[object]) -> CpuSet:
        return CpuSet(cpu for cpu in self if cpu not in other)

    def _value(self) -> int:
        value = 0
        for cpu in self:
            value |= 1 << cpu
        return value


EMPTY = CpuSet()
"""The empty set."""


def _runs(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
