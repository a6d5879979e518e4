# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode goodput: which calls write metrics."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import goodput
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ([], "usual"),
        (["--html", "page.html"], "usual"),
        (["--since", "1h"], ""),
        (["--until", "2026-11-01"], ""),
        (["--training", "llama"], ""),
        (["--training", "llama", "--jobs", "7"], ""),
        (["--store", "https://account.blob.core.windows.net/other"], ""),
        (["--since", "1h", "--metrics", "other"], "other"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else one,
)
def test_only_the_usual_figures_replace_the_metrics_that_prometheus_reads(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: list[str], folder: str
) -> None:
    """The page and the graphs would mix the figures of an hour or of one training with those of the last days."""
    monkeypatch.chdir(tmp_path)
    settings = goodput.gather.Settings(metrics=str(tmp_path / "usual"))
    monkeypatch.setattr(goodput.gather, "read_settings", lambda _root: settings)
    monkeypatch.setattr(goodput.gather, "gather", lambda *_given: (Ledger(0.0, 60.0), goodput.output.Rates()))
    words = [str(tmp_path / word) if word in ("other", "page.html") else word for word in words]
    assert frame.main(["goodput", *words], (goodput.COMMAND,)) == 0
    written = {path.parent.name for path in tmp_path.rglob("*.prom")}
    assert written == ({folder} if folder else set())
