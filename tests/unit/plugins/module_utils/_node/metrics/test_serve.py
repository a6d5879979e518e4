# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service: progress from jobs, text files, the token, and what happens on a full disk."""

from __future__ import annotations

import errno
import grp
import json
import os
import pathlib
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import job_progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ImdsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run as run_command
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import credentials, progress, serve
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.progress import Progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Settings, Token, read_settings

STEP = b'{"kind": "train", "step": 7, "step_seconds": 1.5}'


@pytest.fixture
def root() -> Iterator[Root]:
    """A machine with short paths, because a socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Root(folder)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"no JSON",
        b"[]",
        b"1",
        b'{"kind": "train"}',
        b'{"kind": "other", "step": 1}',
        b'{"kind": ["train"], "step": 1}',
        b'{"kind": "train", "step": "7"}',
        b'{"kind": "train", "step": NaN}',
        b'{"kind": "train", "step": 1e999}',
        b'{"kind": "train", "step": 1' + b"0" * 400 + b"}",
        b"[" * 900,
        b"\xff\xfe",
    ],
)
def test_a_message_with_anything_but_known_numbers_is_refused(message: bytes) -> None:
    assert progress.parse(message) is None
    assert not Progress().take(1, message, 0.0)


def test_unknown_names_are_ignored() -> None:
    assert progress.parse(b'{"kind": "train", "step": 3, "user": "root", "job_id": 9}') == ("train", {"step": 3.0})


def test_progress_is_kept_while_the_job_runs() -> None:
    kept = Progress()
    assert kept.take(1, STEP, 5.0)
    assert kept.take(2, STEP, 6.0)
    kept.forget({2})
    assert [job for job, _kind in kept.figures] == [2]


def test_jobs_with_progress_are_bounded() -> None:
    kept = Progress()
    taken = [kept.take(job, STEP, 0.0) for job in range(progress.MOST_JOBS + 5)]
    assert taken.count(True) == progress.MOST_JOBS
    # A known job can still report.
    assert kept.take(0, STEP, 1.0)


def receiving(root: Root, kept: Progress, job: int | None) -> Iterator[list[int]]:
    """A service on which every process belongs to a job."""
    pids: list[int] = []
    end = threading.Event()

    def job_of(pid: int, uid: int) -> int | None:
        assert uid == os.geteuid()
        pids.append(pid)
        return job

    with progress.listening(root) as listener:
        until = time.monotonic() + 30
        thread = threading.Thread(target=progress.receive, args=(listener, kept, job_of, until, end.is_set))
        thread.start()
        yield pids
        end.set()
        thread.join()


@pytest.mark.parametrize(("job", "taken"), [(42, True), (None, False)])
def test_a_message_belongs_to_the_job_of_the_process_that_connected(root: Root, job: int | None, taken: bool) -> None:
    kept = Progress()
    service = receiving(root, kept, job)
    pids = next(service)
    assert job_progress.send(root, "train", {"step": 7}) == ("ok" if taken else "no")
    assert pids == [os.getpid()]
    assert list(kept.figures) == ([(42, "train")] if taken else [])
    next(service, None)


def test_every_user_can_connect_and_a_too_long_message_is_refused(root: Root) -> None:
    kept = Progress()
    service = receiving(root, kept, 42)
    next(service)
    assert stat.S_IMODE(os.stat(root.at(job_progress.SOCKET)).st_mode) == 0o666
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(root.at(job_progress.SOCKET))
        connection.send(STEP[:-1] + b" " * 2000 + b"}")
        assert connection.recv(8) == b"no"
    assert not kept.figures
    next(service, None)


def test_one_who_connects_and_says_nothing_does_not_stop_others(root: Root) -> None:
    kept = Progress()
    service = receiving(root, kept, 42)
    next(service)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(root.at(job_progress.SOCKET))
        assert job_progress.send(root, "train", {"step": 1}) == "ok"
    next(service, None)


def test_without_a_service_nothing_happens(root: Root) -> None:
    assert job_progress.send(root, "train", {"step": 1}) == ""
    reporter = job_progress.Reporter(root, "stage")
    reporter.report(bytes_done=1)


@pytest.mark.parametrize(
    ("answer", "reported"), [("ok", [0, 3, 4]), ("no", [0, 4]), ("", [0, 4]), ("later", [0, 2, 3, 4])]
)
def test_a_reporter_does_not_send_more_often_than_it_may(
    root: Root, monkeypatch: pytest.MonkeyPatch, answer: str, reported: list[int]
) -> None:
    """After a failure, it waits a minute: the service may have no time for it.

    If only the user's other jobs have reported in the same second, one of them would wait a minute again and again.
    """
    sent = []

    def send(_root: Root, _kind: str, values: Mapping[str, float]) -> str:
        sent.append(values["bytes_done"])
        return answer

    monkeypatch.setattr(job_progress, "send", send)
    now = 0.0
    reporter = job_progress.Reporter(root, "stage", 10.0, lambda: now)
    for number, now in enumerate((0.0, 0.9, 5.0, 10.0, 61.0)):  # noqa: B007
        reporter.report(bytes_done=number)
    assert sent == reported


def test_a_process_outside_of_jobs_is_in_none() -> None:
    assert progress.job_of_process(Root(), os.getpid(), os.geteuid()) is None
    assert progress.job_of_process(Root(), 1, 0) is None
    assert progress.job_of_process(Root(), 2**22 + 1, 0) is None


def put_process(root: pathlib.Path, pid: int, parent: int, name: str, title: str, uid: int) -> None:
    """A process in /proc."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    fields = " ".join(["0"] * 40)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} {fields}\n", encoding="ascii")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n", encoding="ascii")
    (folder / "cmdline").write_text(title.replace(" ", "\0") + "\0", encoding="ascii")
    (folder / "cgroup").write_text("0::/\n", encoding="ascii")


def test_the_job_is_that_of_the_slurmstepd_above(tmp_path: pathlib.Path) -> None:
    put_process(tmp_path, 10, 1, "slurmstepd", "slurmstepd: [117.batch]", 0)
    put_process(tmp_path, 11, 10, "bash", "bash", 1000)
    put_process(tmp_path, 12, 11, "python3", "python3 train.py", 1000)
    # A user's process with this name and title is no slurmstepd.
    put_process(tmp_path, 20, 1, "slurmstepd", "slurmstepd: [999.batch]", 1000)
    put_process(tmp_path, 21, 20, "python3", "python3", 1000)
    root = Root(str(tmp_path))
    assert progress.job_of_process(root, 12, 1000) == 117
    assert progress.job_of_process(root, 21, 1000) is None


def test_a_process_id_that_another_users_job_got_meanwhile_is_not_the_senders(tmp_path: pathlib.Path) -> None:
    """A user could connect, end, and make up the progress of the job whose process gets this id next."""
    put_process(tmp_path, 10, 1, "slurmstepd", "slurmstepd: [117.batch]", 0)
    put_process(tmp_path, 11, 10, "bash", "bash", 1000)
    root = Root(str(tmp_path))
    assert progress.job_of_process(root, 11, 1000) == 117
    assert progress.job_of_process(root, 11, 1001) is None


def test_a_message_reads_only_the_processes_above_its_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node has thousands of processes, and a user may start more: each message would read them all."""
    put_process(tmp_path, 10, 1, "slurmstepd", "slurmstepd: [117.batch]", 0)
    put_process(tmp_path, 11, 10, "bash", "bash", 1000)
    for pid in range(100, 130):
        put_process(tmp_path, pid, 1, "sleep", "sleep", 1000)
    read: list[str] = []
    text_of = Root.text

    def recording(root: Root, path: str) -> str | None:
        read.append(path)
        return text_of(root, path)

    monkeypatch.setattr(Root, "text", recording)
    assert progress.job_of_process(Root(str(tmp_path)), 11, 1000) == 117
    assert read
    assert {path.split("/")[2] for path in read} == {"10", "11"}


def test_the_text_has_progress_and_beegfs(root: Root) -> None:
    kept = Progress()
    kept.take(7, STEP, 100.0)
    os.makedirs(root.at("/run/hpcai"))
    held = layout.Holding("7", layout.BEEGFS, "/beeond", "/scratch/b", "/scratch", ("meta", "storage"), since=50.0)
    layout.write_state(held, root)
    pathlib.Path(root.at(layout.LEFTOVERS)).write_text("one\ntwo\n", encoding="ascii")
    text = serve.jobs_text(root, kept, 90.0, time.monotonic(), 0)
    assert 'hpcai_job_train_step{job_id="7"} 7' in text
    assert 'hpcai_job_train_step_seconds{job_id="7"} 1.5' in text
    assert 'hpcai_beeond_since_seconds{job_id="7",kind="beegfs"} 50' in text
    assert "hpcai_beeond_leftovers 2" in text
    assert "hpcai_metrics_token_timestamp_seconds 90" in text
    assert all(line.startswith(("#", "hpcai_")) for line in text.splitlines())


def no_token(_resource: str, _client_id: str) -> str:
    """Tokens are not asked for."""
    raise AssertionError


def served(root: Root, settings: Settings, read_token: Callable[[str, str], str] = no_token) -> list[str]:
    """The lines of the service after one pass, without the wait for the next one."""
    done = iter([False] + [True] * 100)

    def run(words: Sequence[str]) -> Result:
        return Result(tuple(words), 1, "", "down")

    return list(serve.serve(root, run, settings, lambda: next(done), read_token))


def test_the_service_writes_its_files(root: Root) -> None:
    lines = served(root, Settings(folder="/metrics", slurm=True))
    assert sorted(os.listdir(root.at("/metrics"))) == ["hpcai_jobs.prom", "hpcai_slurm.prom"]
    assert any("scontrol" in line for line in lines)
    found = serve.status(root, Settings(folder="/metrics", slurm=True))
    assert all(found.values())


def test_a_former_controller_publishes_no_old_metrics_of_slurm(root: Root) -> None:
    served(root, Settings(folder="/metrics", slurm=True))
    lines = served(root, Settings(folder="/metrics"))
    assert os.listdir(root.at("/metrics")) == ["hpcai_jobs.prom"]
    assert not any(line.startswith(serve.ERROR) for line in lines)
    # A second start has nothing to remove.
    assert not any(line.startswith(serve.ERROR) for line in served(root, Settings(folder="/metrics")))


def test_only_a_machine_with_jobs_has_the_socket(root: Root) -> None:
    """Nobody would read from it, and each sender would wait."""
    served(root, Settings(folder="/metrics"))
    assert not os.path.lexists(root.at(job_progress.SOCKET))
    served(root, Settings(folder="/metrics", jobs=True))
    assert os.path.lexists(root.at(job_progress.SOCKET))


def test_a_full_disk_keeps_the_old_file_and_the_service(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    served(root, Settings(folder="/metrics"))
    path = pathlib.Path(root.at("/metrics/hpcai_jobs.prom"))
    before = path.read_text(encoding="utf-8")

    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(serve, "write_file", full)
    lines = served(root, Settings(folder="/metrics"))
    assert any("No space left" in line for line in lines)
    assert path.read_text(encoding="utf-8") == before


def test_the_token_is_written_for_the_group_only(root: Root) -> None:
    group = grp.getgrgid(os.getegid()).gr_name
    token = Token("/run/hpcai/token", "https://monitor.azure.com", "id", group)
    asked = []

    def read(resource: str, client_id: str) -> str:
        asked.append((resource, client_id))
        return "secret"

    serve.write_token(root, token, read)
    path = pathlib.Path(root.at("/run/hpcai/token"))
    assert path.read_text(encoding="ascii") == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert asked == [("https://monitor.azure.com", "id")]


def test_a_refused_token_is_reported_without_the_token_and_keeps_the_old_one(root: Root) -> None:
    path = pathlib.Path(root.at("/run/hpcai/token"))
    path.parent.mkdir(parents=True)
    path.write_text("old", encoding="ascii")

    def refuse(_resource: str, _client_id: str) -> str:
        raise ImdsError("the metadata service refuses")

    lines = served(root, Settings(folder="/metrics", token=Token("/run/hpcai/token")), read_token=refuse)
    assert any("refuses" in line for line in lines)
    assert path.read_text(encoding="ascii") == "old"
    text = pathlib.Path(root.at("/metrics/hpcai_jobs.prom")).read_text(encoding="ascii")
    assert 'hpcai_metrics_problems{part="jobs"} 1' in text


def test_the_token_is_replaced_every_ten_minutes_and_after_a_refusal_each_minute(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    clock = [0.0]

    def read(_resource: str, _client_id: str) -> str:
        asked.append(clock[0])
        if len(asked) in (2, 3):
            raise ImdsError("the metadata service refuses")
        return f"token {len(asked)}"

    def rest(until: float, _ended: Callable[[], bool]) -> None:
        clock[0] = until

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(serve, "_rest", rest)
    token = Token("/run/hpcai/token", group=grp.getgrgid(os.getegid()).gr_name)
    settings = Settings(folder="/metrics", interval_s=30, token=token)
    list(serve.serve(root, run_command, settings, lambda: clock[0] > 1400, read))
    # The first one after ten minutes is refused, and the one a minute later.
    assert asked == [0, 600, 660, 720, 1320]
    assert pathlib.Path(root.at("/run/hpcai/token")).read_text(encoding="ascii") == "token 5"


def test_settings_are_checked(root: Root) -> None:
    assert read_settings(root) is None
    path = pathlib.Path(root.at("/etc/hpcai/metrics.json"))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "interval_s": 10, "token": {"file": "/run/t"}}), encoding="utf-8")
    settings = read_settings(root)
    assert settings is not None
    assert (settings.interval_s, settings.slurm, settings.exporter.port) == (10, False, 9100)
    assert settings.token == Token("/run/t")
    values: list[dict[str, object]] = [{"folder": "x"}, {"interval_s": 0}, {"exporter": {"port": 0}}, {"other": 1}]
    values += [{"token": {"file": "t"}}, {"elastic_dcgm": {"file": "/t"}}, {"elastic_dcgm": {"file": "/t", "port": 0}}]
    for wrong in values:
        path.write_text(json.dumps({"schema": 1, **wrong}), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"metrics\.json"):
            read_settings(root)


def test_the_password_is_made_once_and_only_its_hash_is_in_the_web_configuration(root: Root) -> None:
    group = grp.getgrgid(os.getegid()).gr_name
    os.makedirs(root.at("/m"))
    assert credentials.ensure(root, "/m", group)
    password = pathlib.Path(root.at("/m/alertmanager.password")).read_text(encoding="ascii")
    web = pathlib.Path(root.at("/m/alertmanager-web.yml")).read_text(encoding="ascii")
    assert len(password) >= 24
    assert password not in web
    assert "$2b$10$" in web
    assert stat.S_IMODE(os.stat(root.at("/m/alertmanager.password")).st_mode) == 0o640
    assert not credentials.ensure(root, "/m", group)
    with pytest.raises(ConfigError, match="no group"):
        credentials.ensure(root, "/other", "no-such-group")
