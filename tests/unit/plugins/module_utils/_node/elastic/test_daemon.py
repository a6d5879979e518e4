# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon's files: settings, book, requests, status, cost; and what its command line does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import book as books
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import cost, spool, status
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.daemon import CONTROLS, Daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import FORM, Settings, read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .world import ID, START, Azure, World

SETS: dict[str, Any] = {"gpu": {"id": f"{ID}gpu", "max": 6, "price": 10.0}}


def settings(**more: Any) -> Settings:
    """Settings with one set."""
    return FORM("", {"sets": SETS, **more})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sets": {"gpu": {"id": "/subscriptions/x", "max": 1}}}, "resource id"),
        ({"sets": {"gpu": {**SETS["gpu"], "min": 7}}}, "more than max"),
        ({"sets": {"gpu": {**SETS["gpu"], "maks": 7}}}, "unknown keys maks"),
        ({"sets": SETS, "endpoint": "http://management.azure.com"}, "https"),
        ({"sets": SETS, "lease_field": "Reason"}, "Comment or Extra"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/elastic.json").write_text(json.dumps({"schema": 1, **given}), encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        read_settings(Root(str(tmp_path)))


def test_a_book_survives_and_a_damaged_one_is_kept(tmp_path: Path) -> None:
    world = World()
    world.arm.next_order = ["partial"]
    world.slurm.submit(3, 60)
    world.advance(300)
    root, path = Root(str(tmp_path)), "/var/lib/hpcai/elastic/state.json"
    books.write(root, path, world.book)
    assert books.read(root, path) == (world.book, "")
    assert os.stat(root.at(path)).st_mode & 0o777 == 0o600
    Path(root.at(path)).write_text(books.as_text(world.book).replace('"granted": ', '"granted": "x", "y": '))
    found, problem = books.read(root, path)
    assert found == books.Book()
    assert "moved to" in problem
    assert os.path.exists(f"{root.at(path)}.unreadable")


def test_a_program_of_slurm_only_leaves_a_request(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    os.makedirs(root.at(spool.SPOOL))
    spool.beat(root, START)
    ran: list[object] = []

    def run(command: object) -> Result:
        ran.append(command)
        return Result((), 0, "", "")

    assert not spool.serve_program(root, spool.RESUME, "gpu-[0-2]", run, START + 300)
    assert not ran
    [request] = spool.take(root, spool.SPOOL, spool.PROGRAMS)
    assert (request.kind, request.names) == ("resume", ("gpu-0", "gpu-1", "gpu-2"))
    assert not spool.take(root, spool.SPOOL, spool.PROGRAMS)


def test_without_the_daemon_for_ten_minutes_requests_fail_at_once(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    spool.beat(root, START)
    ran: list[list[str]] = []

    def run(command: Any) -> Result:
        ran.append(list(command))
        return Result((), 0, "", "")

    words = spool.serve_program(root, spool.RESUME, "gpu-1", run, START + 601)
    assert "does not run" in words
    assert ran[0][:4] == ["scontrol", "update", "NodeName=gpu-1", "State=DOWN"]
    assert ran[0][4].startswith("Reason=hpcai: elastic: NoDaemon")


def test_what_slurms_user_puts_into_the_spool_is_not_trusted(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    folder = Path(root.at(spool.SPOOL))
    folder.mkdir(parents=True)
    (folder / "secret.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    (folder / "long.json").write_text("[" * 100_000, encoding="utf-8")
    (folder / "pause.json").write_text(
        json.dumps({"schema": 1, "kind": "pause", "names": ["gpu"], "time": 1, "until": 0}), encoding="utf-8"
    )
    assert not spool.take(root, spool.SPOOL, spool.PROGRAMS)
    assert not list(folder.iterdir())


def test_the_daemon_takes_requests_and_writes_status_metrics_and_cost(tmp_path: Path) -> None:
    world, root = World(), Root(str(tmp_path))
    for folder in (spool.SPOOL, spool.CONTROL, "/prom"):
        os.makedirs(root.at(folder))
    chosen = settings(metrics="/prom")
    daemon = Daemon(root, lambda command: Result((), 0, "", ""), chosen, world.slurm, Azure(world.arms))
    world.slurm.submit(1, 600)
    lines: list[str] = []
    for _number in range(24):
        world.tick(15)
        lines += daemon.one_pass(world.now, world.now)[1]
    found = status.read_status(root)
    assert found
    assert status.count(found["sets"]["gpu"])["joined"] == 1
    assert not status.is_bad(found)
    text = Path(root.at("/prom/hpcai_elastic.prom")).read_text(encoding="utf-8")
    assert 'hpcai_elastic_slots{set="gpu",state="joined"} 1' in text
    assert any("gpu-0 gets machine" in line for line in lines)
    summary = cost.summary(cost.read(root), chosen, "2023-01-01")
    assert summary["sets"]["gpu"]["work"] + summary["sets"]["gpu"]["booting"] > 0
    spool.write(root, spool.CONTROL, "pause", ["gpu"], world.now)
    assert any("paused by an administrator" in line for line in daemon.one_pass(world.now, world.now)[1])
    spool.write(root, spool.CONTROL, "resume-set", [], world.now)
    daemon.one_pass(world.now, world.now)
    again = status.read_status(root)
    assert again
    assert not again["sets"]["gpu"]["paused"]
    assert set(CONTROLS) == {"pause", "resume-set", "keep"}


def test_the_budget_is_the_list_price_of_the_day_and_the_month() -> None:
    chosen = settings(budget={"day": 100, "month": 1000})
    ledger = cost.Ledger(
        {"2023-11-14": cost.Day({"gpu": {cost.WORK: 9.0}}), "2023-11-01": cost.Day({"gpu": {"idle": 90.0}})}
    )
    assert cost.why_stopped(ledger, chosen, START) == ""
    ledger.days["2023-11-14"].sets["gpu"]["idle"] = 1.0
    assert "daily budget of 100" in cost.why_stopped(ledger, chosen, START)
    ledger.days["2023-11-14"].sets["gpu"] = {}
    ledger.days["2023-11-01"].sets["gpu"]["idle"] = 101.0
    assert "monthly budget of 1000" in cost.why_stopped(ledger, chosen, START)


def test_a_node_of_two_jobs_is_shared_by_their_users() -> None:
    world = World()
    world.slurm.submit(1, 1e9)
    world.advance(200)
    ledger = cost.Ledger()
    cost.add(ledger, world.book, world.slurm.view(), world.settings, START, 360)
    day = ledger.days[cost.date_of(START)]
    assert day.sets["gpu"] == {cost.WORK: pytest.approx(0.1)}
    assert day.users["gpu"]["ann"] == pytest.approx(0.1)
