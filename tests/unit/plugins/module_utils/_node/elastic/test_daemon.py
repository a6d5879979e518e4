# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon's files: settings, book, requests, status, cost; and what its command line does."""

from __future__ import annotations

import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import book as books
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import cost, spool, status
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.daemon import CONTROLS, Daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import FORM, Settings, read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .world import ID, START, Azure, World

SETS: dict[str, Any] = {"gpu": {"id": f"{ID}gpu", "max": 6, "price": 10.0}}


@pytest.fixture
def short() -> Iterator[Root]:
    """A folder for sockets, whose paths may have 107 characters. That of pytest can be too long."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Root(folder)


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
    # An older hpcnode wrote no evicted nodes.
    older = json.loads(books.as_text(world.book))
    del older["evicted"]
    assert books.parse(json.dumps(older)) == world.book
    Path(root.at(path)).write_text(books.as_text(world.book).replace('"granted": ', '"granted": "x", "y": '))
    found, problem = books.read(root, path)
    assert found == books.Book()
    assert "moved to" in problem
    assert os.path.exists(f"{root.at(path)}.unreadable")


def test_a_request_wakes_the_daemon(short: Root) -> None:
    world, root = World(), short
    chosen = settings(interval_s=600, metrics="")
    daemon = Daemon(root, lambda command: Result((), 0, "", ""), chosen, world.slurm, Azure(world.arms))
    ended = threading.Event()
    lines: queue.Queue[str] = queue.Queue()

    def serve() -> None:
        for line in daemon.serve(ended.is_set):
            lines.put(line)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not root.exists(spool.HEARTBEAT):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        spool.write(root, spool.SPOOL, spool.RESUME, ["gpu-1"], time.time())
        # The next pass is due in ten minutes.
        while "Slurm asks: resume gpu-1" not in lines.get(timeout=5):
            pass
    finally:
        ended.set()
        spool.poke(root)
        thread.join(10)
    assert not thread.is_alive()


def test_a_pass_that_fails_ends_the_daemon_with_one_line(short: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    daemon = Daemon(short, lambda command: Result((), 0, "", ""), settings(metrics=""), world.slurm, Azure(world.arms))

    def fail(*_given: object) -> None:
        raise ValueError("x")

    monkeypatch.setattr(daemon, "one_pass", fail)
    lines: list[str] = []
    with pytest.raises(ValueError, match="x"):
        lines.extend(iter(daemon.serve(lambda: False)))
    assert lines[-1] == "<3>the pass failed: ValueError('x'). systemd starts the daemon again"


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


@pytest.mark.parametrize(("uptime", "fails"), [("30.12 58.3", False), ("700.5 1400.0", True)])
def test_after_a_boot_requests_wait_ten_minutes_for_the_first_pass(tmp_path: Path, uptime: str, fails: bool) -> None:
    root = Root(str(tmp_path))
    os.makedirs(root.at(spool.SPOOL))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/uptime").write_text(f"{uptime}\n", encoding="utf-8")
    ran: list[object] = []

    def run(command: object) -> Result:
        ran.append(command)
        return Result((), 0, "", "")

    assert bool(spool.serve_program(root, spool.RESUME, "gpu-1", run, START)) is fails
    assert bool(ran) is fails
    assert len(spool.take(root, spool.SPOOL, spool.PROGRAMS)) == (not fails)


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
    summary = cost.summary(cost.read(root), cost.read_prices(root, chosen), "2023-01-01")
    assert summary["sets"]["gpu"]["work"] + summary["sets"]["gpu"]["booting"] > 0
    spool.write(root, spool.CONTROL, "pause", ["gpu"], world.now)
    assert any("paused by an administrator" in line for line in daemon.one_pass(world.now, world.now)[1])
    spool.write(root, spool.CONTROL, "resume-set", [], world.now)
    daemon.one_pass(world.now, world.now)
    again = status.read_status(root)
    assert again
    assert not again["sets"]["gpu"]["paused"]
    spool.write(root, spool.CONTROL, "retire", list(status.machines(again).values()), world.now, words="faulty")
    assert any("retires gpu-0: faulty" in line for line in daemon.one_pass(world.now, world.now)[1])
    assert set(CONTROLS) == {"pause", "resume-set", "keep", "retire", "read"}


def test_the_budget_is_the_list_price_of_the_day_and_the_month() -> None:
    chosen = settings(budget={"day": 100, "month": 1000})
    known = cost.Prices({"gpu": 10.0})
    ledger = cost.Ledger(
        {"2023-11-14": cost.Day({"gpu": {cost.WORK: 9.0}}), "2023-11-01": cost.Day({"gpu": {"idle": 90.0}})}
    )
    assert cost.why_stopped(ledger, chosen, known, START) == ""
    ledger.days["2023-11-14"].sets["gpu"]["idle"] = 1.0
    assert "daily budget of 100" in cost.why_stopped(ledger, chosen, known, START)
    ledger.days["2023-11-14"].sets["gpu"] = {}
    ledger.days["2023-12-25"] = cost.Day({"gpu": {cost.WORK: 500.0}})
    assert cost.why_stopped(ledger, chosen, known, START) == ""
    ledger.days["2023-11-01"].sets["gpu"]["idle"] = 101.0
    assert "monthly budget of 1000" in cost.why_stopped(ledger, chosen, known, START)


class Paying:
    """A daemon with a budget, and its world. An hour of a node costs 10."""

    def __init__(self, tmp_path: Path, **budget: float) -> None:
        self.world, self.root = World(), Root(str(tmp_path))
        for folder in (spool.SPOOL, spool.CONTROL):
            os.makedirs(self.root.at(folder))
        chosen = settings(budget=budget, metrics="")
        azure = Azure(self.world.arms)
        self.daemon = Daemon(self.root, lambda command: Result((), 0, "", ""), chosen, self.world.slurm, azure)

    def passes(self, count: int) -> str:
        """Let it run so many times, and return why it orders nothing any more."""
        for _number in range(count):
            self.world.tick(15)
            self.daemon.one_pass(self.world.now, self.world.now)
        return str((status.read_status(self.root) or {})["stopped"])


def test_a_daemon_that_has_used_its_budget_up_orders_nothing_and_says_so(tmp_path: Path) -> None:
    paying = Paying(tmp_path, day=1.0)
    world, passes = paying.world, paying.passes
    first = world.slurm.submit(1, 1e9)
    # 150 s of a node for 10 an hour are 0.42, and 600 s are 1.67.
    assert (passes(10), first.state) == ("", "RUNNING")
    assert "the daily budget of 1 is used up" in passes(30)
    second = world.slurm.submit(1, 60)
    passes(10)
    assert (world.arm.changes, world.arm.created) == (1, 1)
    assert (first.state, second.state) == ("RUNNING", "PENDING")
    assert "hpcai: elastic: Budget" in second.words[0]
    assert "the daily budget of 1 is used up" in second.words[0]
    assert any("no growth: the daily budget" in line for line in status.lines(status.read_status(paying.root) or {}))


def test_hours_without_an_answer_of_slurmctld_count_in_the_budget(tmp_path: Path) -> None:
    paying = Paying(tmp_path, month=40.0)
    world, passes = paying.world, paying.passes
    world.slurm.submit(1, 1e9)
    assert passes(10) == ""
    world.slurm.faults = ["failed"] * 240
    assert passes(240) == ""
    daemon = paying.daemon
    found = cost.summary(daemon._ledger, daemon._prices, "2023-01-01")["sets"]["gpu"]
    assert found["idle"] == pytest.approx(1.0, abs=0.1)
    world.slurm.faults = ["failed"] * 800
    assert "the monthly budget of 40 is used up" in passes(800)


def test_the_price_is_that_of_the_price_file_unless_it_is_stated(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    size = {"id": f"{ID}a", "max": 1, "vm_size": "Standard_ND96asr_v4"}
    sets = {
        "a": size,
        "spot": {**size, "spot": True},
        "mine": {**size, "price": 5},
        "b": {**size, "vm_size": "Standard_X"},
    }
    chosen = settings(sets=sets, prices="/prices.json", region="WestEurope")
    assert cost.read_prices(root, chosen) == cost.Prices({"mine": 5}, problem="/prices.json: no such file")
    one = {"region": "westeurope", "size": "Standard_ND96asr_v4", "hourly": 32.5, "spot_hourly": 9.5}
    held = {"schema": 1, "currency": "USD", "date": "2026-11-20", "source": "x", "sizes": [one], "items": []}
    (tmp_path / "prices.json").write_text(json.dumps(held), encoding="utf-8")
    known = cost.read_prices(root, chosen)
    assert known == cost.Prices({"a": 32.5, "spot": 9.5, "mine": 5}, "USD", "2026-11-20")
    ledger = cost.Ledger({"2026-11-20": cost.Day({"a": {cost.WORK: 1.0, cost.FAILED: 1.0}, "b": {cost.IDLE: 2.0}})})
    found = cost.summary(ledger, known, "2026-11-01", {"a": {"physics": 0.5}})
    assert (found["sets"]["a"]["cost"], found["sets"]["b"]["cost"]) == (65.0, None)
    assert found["accounts"] == [{"account": "physics", "hours": 0.5, "cost": 16.25}]
    text = "\n".join(cost.lines(found))
    assert "USD, list prices of 2026-11-20" in text
    assert "price not known" in text
    assert "1.0 h failed" in text


@pytest.mark.parametrize(
    "text",
    ["{", '{"schema": 99, "days": {}}', '{"schema": 1, "days": {"2026-11-27": {"sets": {"gpu": 7}, "users": {}}}}'],
)
def test_a_ledger_that_cannot_be_read_is_kept(tmp_path: Path, text: str) -> None:
    world, root = World(), Root(str(tmp_path))
    os.makedirs(root.at("/var/lib/hpcai/elastic"))
    Path(root.at(cost.FILE)).write_text(text, encoding="utf-8")
    daemon = Daemon(root, lambda command: Result((), 0, "", ""), settings(), world.slurm, Azure(world.arms))
    [problem] = daemon.problems
    assert "Costs and budgets are counted from now on only" in problem
    assert Path(f"{root.at(cost.FILE)}.unreadable").read_text(encoding="utf-8") == text
    assert not os.path.exists(root.at(cost.FILE))
    cost.write(root, cost.Ledger({"2026-11-27": cost.Day({"gpu": {cost.WORK: 1.0}})}))
    assert not cost.set_aside(root)
    assert cost.read(root).days["2026-11-27"].sets == {"gpu": {"work": 1.0}}


@pytest.mark.parametrize("since", ["2026-13-45", "yesterday", "2026-11"])
def test_a_day_that_does_not_exist_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], since: str
) -> None:
    for folder in ("etc/hpcai", "var/lib/hpcai/elastic"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/hpcai/elastic.json").write_text(json.dumps({"schema": 1, "sets": SETS}), encoding="utf-8")
    words = ["--root", str(tmp_path), "elastic", "cost", "--since"]
    assert main([*words, since]) == 3
    assert "give a date such as 2026-11-01" in capsys.readouterr().err
    assert main([*words, "2026-11-01"]) == 0


def test_a_node_of_two_jobs_is_shared_by_their_users() -> None:
    world = World()
    world.slurm.submit(1, 1e9)
    world.advance(200)
    ledger = cost.Ledger()
    cost.add(ledger, world.book, world.slurm.view(), world.settings, START, 360)
    day = ledger.days[cost.date_of(START)]
    assert day.sets["gpu"] == {cost.WORK: pytest.approx(0.1)}
    assert day.users["gpu"]["ann"] == pytest.approx(0.1)
