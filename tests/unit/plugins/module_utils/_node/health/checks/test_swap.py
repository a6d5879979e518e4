# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Swap: none, some, as the site wants it, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.swap import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from ..playing import context


def measure(root: Path, mib: int, **options: object) -> Answer:
    """A machine with so much swap, of which one MiB is taken."""
    (root / "proc").mkdir(exist_ok=True)
    text = f"SwapTotal:      {mib * 1024} kB\nSwapFree:       {max(mib - 1, 0) * 1024} kB\n"
    (root / "proc/meminfo").write_text(text, encoding="ascii")
    return CHECK.measure(context(root=root, options={"swap": options}))


def test_passes_without_any(tmp_path: Path) -> None:
    answer = measure(tmp_path, 0)
    assert (answer.findings, answer.good) == ((), "no swap")


def test_fails_to_be_good_with_some_unless_the_site_wants_it(tmp_path: Path) -> None:
    (found,) = measure(tmp_path, 1).findings
    assert (found.verdict, found.summary) == ("warn", "1 MiB of swap are there, and 0 are wanted")
    answer = measure(tmp_path, 4096, most_mib=4096)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [4096, 1])
    assert [found.verdict for found in measure(tmp_path, 4097, most_mib=4096).findings] == ["warn"]


def test_cannot_measure_without_proc_or_with_an_option_that_is_none(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("SwapTotal:      0 kB\n", encoding="ascii")
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
    with pytest.raises(ConfigError, match="most_mib"):
        measure(tmp_path, 0, most_mib="many")
