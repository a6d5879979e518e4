# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real Prometheus removes what is older than the retention of the role, and what exceeds its size, and sends its
samples to another Prometheus.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from stand_ins.monitor import free_port, prometheus, render, wait

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import credentials

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: tests/setup/host.sh installs it")
SERIES = 2000


def blocks(folder: pathlib.Path, days: Sequence[int]) -> dict[str, str]:
    """Make a block for each of these days before now, and return the ages in days by the blocks' names."""
    found: dict[str, str] = {}
    for day in days:
        moment = int(time.time()) - day * 86400
        text = "# TYPE x gauge\n" + "".join(f'x{{n="{number}"}} 1 {moment}\n' for number in range(SERIES)) + "# EOF\n"
        source = folder / "metrics.txt"
        source.write_text(text, encoding="ascii")
        words = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder / "data")]
        subprocess.run(words, check=True, capture_output=True)
        found |= {path.name: str(day) for path in (folder / "data").iterdir() if path.name not in found}
    return found


def kept(
    evaluate: Callable[..., Any], folder: pathlib.Path, ages: dict[str, str], left: Sequence[str], **variables: Any
) -> list[str]:
    """Start Prometheus with the role's retention, and return the ages of the blocks that stay."""
    unit = render(evaluate, "hpcai-prometheus.service.j2", folder, **variables)
    options = [word for word in unit.split() if word.startswith("--storage.tsdb.retention")]
    assert len(options) == 2

    def shown() -> list[str]:
        return sorted((ages[path.name] for path in (folder / "data").iterdir() if path.name in ages), key=int)

    with prometheus(folder, "global: {}\n", free_port(), options=options):
        # Prometheus applies the retention when it opens its data.
        wait(lambda: shown() == list(left), shown)
        return shown()


def test_blocks_older_than_the_retention_are_removed(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    ages = blocks(tmp_path, (40, 20, 1))
    assert kept(evaluate, tmp_path, ages, ["1", "20"], monitoring_retention="30d") == ["1", "20"]


def test_the_oldest_blocks_are_removed_above_the_size(tmp_path: pathlib.Path, evaluate: Callable[..., Any]) -> None:
    ages = blocks(tmp_path, (3, 2, 1))
    size = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*") if path.is_file())
    limit = f"{size * 8 // 10}B"
    assert kept(evaluate, tmp_path, ages, ["1", "2"], monitoring_retention_size=limit) == ["1", "2"]


def test_another_prometheus_gets_the_samples_also_those_from_before_it_ran(
    tmp_path: pathlib.Path, evaluate: Callable[..., Any]
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    port, receiver = free_port(), free_port()
    credentials.ensure(Root("/"), str(other), "root")
    entry = {
        "url": f"http://127.0.0.1:{receiver}/api/v1/write",
        "basic_auth": {"username": credentials.USER, "password_file": str(other / credentials.PASSWORD_FILE)},
        "write_relabel_configs": [{"source_labels": ["__name__"], "regex": "up", "action": "keep"}],
    }
    config = render(
        evaluate,
        "prometheus.yml.j2",
        own,
        monitoring_interval=1,
        monitoring_remote_write=[entry],
        hpcai_cluster_name="train",
    )
    (own / "alertmanager.password").write_text("none", encoding="ascii")
    web = (other / credentials.WEB_FILE).read_text(encoding="utf-8")
    options = ["--web.enable-remote-write-receiver"]
    with prometheus(own, config.replace(":9090", f":{port}"), port) as sender:
        wait(lambda: sender.query('count_over_time(up{job="prometheus"}[5m]) > 2'), lambda: sender.query("up"))
        began = time.time()
        with prometheus(other, "global: {}\n", receiver, web=web, options=options) as found:
            query = 'min_over_time(timestamp(up{job="prometheus"})[5m:1s])'
            first = wait(lambda: found.query(query), (own / "prometheus.log").read_text)[0]
            assert float(first["value"][1]) < began
            assert first["metric"]["cluster"] == "train"
            names = found.query("count by (__name__) ({__name__=~'.+'})")
            assert [one["metric"]["__name__"] for one in names] == ["up"]
