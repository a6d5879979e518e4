# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bundle: what is in the archive, and what must never be."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pathlib
import shutil
import stat
import tarfile
import time
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import archive, catalog, collect, perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.item import Command, Item, Tool, command, files
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.pseudonyms import Pseudonyms
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.reading import Raw, may_be_opened, read_command
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

from .planted import IN_LOGS, IN_SETTINGS, JWT, MUNGE_KEY, PEM, USER_DATA

BOOT = "11111111-2222-3333-4444-555555555555"


def write(tmp_path: pathlib.Path, path: str, text: str) -> None:
    """A file of the machine."""
    target = tmp_path / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def machine(tmp_path: pathlib.Path) -> Root:
    """A controller with a secret in each file that is read, and in those that must not be."""
    lines = "\n".join(text for text, _secret in IN_LOGS.values() if "PRIVATE" not in text)
    for log in ("slurm/slurmctld.log", "slurm/slurmd.log", "slurm/slurmdbd.log", "waagent.log", "hpcai/jobs/1.log"):
        write(
            tmp_path,
            f"/var/log/{log}",
            f"begin\n{lines}\nused DatabasePasswordInWords\nend\n{IN_LOGS['private key'][0]}\n",
        )
    check = {"name": "gpu_count", "verdict": "fail", "summary": "7 of 8 GPUs <script>", "action": "replace"}
    health = {"schema": 1, "tier": "periodic", "node": {"name": "batch-3", "boot_id": BOOT}, "checks": [check]}
    write(tmp_path, "/run/hpcai/health/periodic.json", json.dumps({**health, "hint": lines}))
    write(tmp_path, "/proc/sys/kernel/random/boot_id", BOOT)
    write(tmp_path, "/etc/hostname", "batch-3\n")
    write(tmp_path, "/etc/slurm/slurm.conf", "ClusterName=train\nAuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key\n")
    write(tmp_path, "/usr/sbin/slurmctld", "")
    write(tmp_path, "/etc/slurm/slurmdbd.conf", f"DbdHost=localhost\nStoragePass={IN_SETTINGS['StoragePass']}\n")
    write(
        tmp_path,
        "/etc/hpcai/x.json",
        json.dumps({"schema": 1, **{k: IN_SETTINGS[k] for k in ("registry_password", "hook")}}),
    )
    write(tmp_path, "/etc/nccl.conf", "NCCL_DEBUG=INFO\nWANDB_API_KEY=0123456789 abcdef\n")
    write(tmp_path, "/run/hpcai/boot/gpu_boot.json", '{"schema": 1, "step": "gpu_boot", "verdict": "fail"}')
    write(tmp_path, "/run/hpcai/health/arbiter.json", '{"schema": 1, "time": 1, "refused": [{"node": "batch-3"}]}')
    pairs = {"PhysicalHostName": "AMS07XXXXXXXX", "VirtualMachineName": "batch_3", "Deployment": IN_LOGS["SAS"][1]}
    pool = "".join(key.ljust(512, "\0") + value.ljust(2048, "\0") for key, value in pairs.items())
    write(tmp_path, "/var/lib/hyperv/.kvp_pool_3", pool)
    write(tmp_path, "/var/lib/hpcai/instance.json", '{"schema": 1, "vm_id": "vm-1", "vm_size": "Standard_ND96asr_v4"}')
    # Never read.
    write(tmp_path, "/etc/munge/munge.key", MUNGE_KEY)
    write(tmp_path, "/etc/slurm/jwt_hs256.key", PEM)
    write(tmp_path, "/var/lib/cloud/instance/user-data.txt", USER_DATA)
    write(tmp_path, "/proc/1/environ", f"SLURM_JWT={JWT}\0HF_TOKEN=environment-token\0")
    return Root(str(tmp_path))


def recorded(words: Sequence[str], _limit_s: float, _most_bytes: int) -> Raw:
    """Each command prints all secrets."""
    return Raw("\n".join([" ".join(words), *(text for text, _secret in IN_LOGS.values())]) + "\n", 0)


def parts_of(data: bytes) -> dict[str, str]:
    """The texts in an archive, by their names without the folder."""
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        files = {one.name.partition("/")[2]: opened.extractfile(one) for one in opened}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def test_no_planted_secret_is_in_an_archive(tmp_path: pathlib.Path) -> None:
    made = perform.make(machine(tmp_path), perform.Options(), run_command=recorded)
    parts = parts_of(made.bundle.data)
    # The test would prove nothing if the files with secrets were not there.
    for name in (
        "slurmctld_log",
        "health",
        "settings",
        "slurm_configuration",
        "job_logs",
        "gpu",
        "kernel_log",
        "nodes",
    ):
        assert f"items/{name}.txt" in parts
    everything = "\n".join(parts.values())
    secrets = {**{kind: secret for kind, (_text, secret) in IN_LOGS.items()}, **IN_SETTINGS}
    secrets |= {
        "user data": USER_DATA[:20],
        "key": PEM.split("\n")[1],
        "token": "environment-token",
        "munge": MUNGE_KEY,
    }
    assert len(secrets) >= 20
    assert not [kind for kind, secret in secrets.items() if secret in everything]


def test_what_azures_support_asks_first_and_the_records_of_boot_and_arbiter_are_in_the_archive(
    tmp_path: pathlib.Path,
) -> None:
    parts = parts_of(perform.make(machine(tmp_path), perform.Options(), run_command=recorded).bundle.data)
    host = json.loads(parts["items/host.txt"])
    assert host == {"host": {"PhysicalHostName": "AMS07XXXXXXXX", "VirtualMachineName": "batch_3"}, "other_pairs": 1}
    assert "AMS07XXXXXXXX" in parts["index.html"]
    assert '"vm-1"' in parts["items/instance.txt"]
    assert "gpu_boot" in parts["items/boot.txt"]
    assert '"node": "batch-3"' in parts["items/arbiter.txt"]


def test_the_index_says_what_became_of_each_item(tmp_path: pathlib.Path) -> None:
    made = perform.make(machine(tmp_path), perform.Options(), run_command=recorded)
    parts = parts_of(made.bundle.data)
    index = json.loads(parts["index.json"])
    items = {item["name"]: item for item in index["items"]}
    assert set(items) == {item.name for item in catalog.select(True)}
    assert {item["file"] for item in items.values() if item["file"]} == set(parts) - {"index.html", "index.json"}
    # The log of compute nodes; this is a controller.
    assert "slurmd_log" not in items
    assert items["azure_agent"]["redacted"] > 10
    assert (items["fabric_manager"]["file"], items["fabric_manager"]["note"]) == ("", "there is no such file")
    assert items["gpu"]["exit"] == 0
    for item in items.values():
        assert set(item) == {"name", "title", "holds", "file", "bytes", "exit", "seconds", "cut", "redacted", "note"}


def test_the_first_page_is_html_without_scripts_and_its_links_exist(tmp_path: pathlib.Path) -> None:
    parts = parts_of(perform.make(machine(tmp_path), perform.Options(), run_command=recorded).bundle.data)
    links: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag != "script"
            links.extend(str(value) for name, value in attrs if name == "href")

    Reader().feed(parts["index.html"])
    assert len(links) > 20
    assert set(links) <= set(parts)
    assert "7 of 8 GPUs &lt;script&gt;" in parts["index.html"]
    assert "vm-1" in parts["index.html"]


def test_a_hung_tool_and_a_defect_do_not_end_the_collection(tmp_path: pathlib.Path) -> None:
    def broken(_words: Sequence[str], _limit_s: float, _most: int) -> Raw:
        raise ValueError("defect")

    items = (Item("hung", "x", command("sh -c 'echo a; sleep 60'"), limit_s=0.2), Item("good", "x", command("echo b")))
    entries = collect.Collector(Root("/")).collect(items)
    assert [entry.cut for entry in entries] == ["time", ""]
    assert entries[1].text == "b\n"
    entries = collect.Collector(Root(str(tmp_path)), read_command=broken).collect(items)
    assert [entry.note for entry in entries] == ["not read: ValueError"] * 2


def test_the_total_time_limit_leaves_out_the_last_items() -> None:
    items = (Item("slow", "x", command("sleep 60"), limit_s=30), Item("late", "x", command("echo b")))
    entries = collect.Collector(Root("/"), limit_s=0.3).collect(items)
    assert [entry.cut for entry in entries] == ["time", "time"]
    assert "time limit of the bundle" in entries[1].note


def test_two_collections_do_not_run_at_once(tmp_path: pathlib.Path) -> None:
    root = machine(tmp_path)
    with only_one(root.at(perform.LOCK), 0), pytest.raises(CommandFailed, match="another collection is running"):
        perform.make(root, perform.Options(), run_command=recorded)
    assert perform.make(root, perform.Options(), run_command=recorded).bundle.data


def bundle(size: int = 1000) -> archive.Bundle:
    """A bundle that is not written."""
    return archive.Bundle("hpcai-diag-batch-3-20260101T000000Z", {}, os.urandom(size))


def test_the_archive_is_written_for_root_only(tmp_path: pathlib.Path) -> None:
    root, one = Root(str(tmp_path)), bundle()
    path = archive.write_bundle(root, one)
    assert path == f"/var/lib/hpcai/diag/{one.name}.tar.gz"
    assert stat.S_IMODE(os.stat(root.at(path)).st_mode) == 0o600
    assert pathlib.Path(root.at(path)).read_bytes() == one.data
    assert os.listdir(os.path.dirname(root.at(path))) == [f"{one.name}.tar.gz"]


def test_a_full_disk_moves_the_archive_to_memory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, one = Root(str(tmp_path)), bundle()
    real = os.open

    def full(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd is not None else ""
        if where.endswith("/var/lib/hpcai/diag") and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", full)
    assert archive.write_bundle(root, one) == f"/run/hpcai/diag/{one.name}.tar.gz"


def test_no_room_anywhere_is_one_error_that_says_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, 10, 5, 5, 9, 9, 9, 0, 255)))
    with pytest.raises(archive.NoRoom, match=r"only 0 MiB are free.*Free some space, or use --output -"):
        archive.write_bundle(Root(str(tmp_path)), bundle())


def test_only_the_newest_archives_are_kept(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    for day in range(1, 5):
        write(tmp_path, f"/var/lib/hpcai/diag/hpcai-diag-a-2026010{day}T000000Z.tar.gz", "x")
    write(tmp_path, "/var/lib/hpcai/diag/notes.txt", "somebody's")
    removed = archive.keep_newest(root, "/var/lib/hpcai/diag", 2)
    assert removed == ["hpcai-diag-a-20260101T000000Z.tar.gz", "hpcai-diag-a-20260102T000000Z.tar.gz"]
    assert len(root.entries("/var/lib/hpcai/diag")) == 3


def test_pseudonyms_replace_names_and_addresses_in_the_same_way() -> None:
    names = Pseudonyms("salt")
    text = (
        "UserId=alice(1000) /home/azureuser/x NodeName=batch-3 batch-3 batch-[0-3] 10.1.2.3 10.1.2.3 fe80::1 127.0.0.1 "
        "169.254.169.254 00:15:5d:33:ff:0a at 12:34:56, 0001:00:00.0 /subscriptions/abc/resourceGroups/rg-1/x "
        "alice@example.com alice"
    )
    names.learn(users=["alice"], hosts=["batch-3"])
    shown = names.replace(text)
    for name in ("alice", "azureuser", "batch", "10.1.2.3", "fe80", "5d:33", "abc", "rg-1", "example"):
        assert name not in shown
    for kept in ("127.0.0.1", "169.254.169.254", "12:34:56", "0001:00:00.0"):
        assert kept in shown
    assert shown.split()[5] == shown.split()[6]
    again = Pseudonyms("salt")
    again.learn(hosts=["batch-3"])
    assert again.replace("batch-3") == names.of("host", "batch-3")
    assert names.of("host", "batch-3") in shown
    assert Pseudonyms("other").of("host", "batch-3") != names.of("host", "batch-3")


def test_a_pseudonymous_bundle_has_no_names_and_keeps_them_apart(tmp_path: pathlib.Path) -> None:
    root = machine(tmp_path)
    write(tmp_path, "/var/log/waagent.log", "UserId=alice(1000) logged in from 10.1.2.3 on batch-3\n")
    answers = {"ps": "PID PPID UID USER\n 70 1 1000 alice\n", "scontrol": "NodeName=batch-3 Arch=x86_64\n"}

    def answer(words: Sequence[str], _limit_s: float, _most_bytes: int) -> Raw:
        return Raw(answers.get(words[0], "") + "alice on batch-3\n", 0)

    made = perform.make(root, perform.Options(salt=""), run_command=answer)
    everything = "\n".join([made.bundle.name, *parts_of(made.bundle.data).values()])
    assert not [name for name in ("alice", "batch-3", "10.1.2.3") if name in everything]
    assert {"alice", "batch-3", "10.1.2.3"} <= set(made.names)


def test_a_beginning_of_a_key_hides_nothing_in_other_files(tmp_path: pathlib.Path) -> None:
    """Users write into the logs of their jobs, and other jobs failed at the same time."""
    write(tmp_path, "/var/log/hpcai/jobs/1.log", "first\n-----BEGIN PRIVATE KEY-----\nhidden\n")
    write(tmp_path, "/var/log/hpcai/jobs/2.log", "second\n")
    item = next(one for one in catalog.CATALOG if one.name == "job_logs")
    (entry,) = collect.Collector(Root(str(tmp_path))).collect([item])
    paths = [f"# /var/log/hpcai/jobs/{number}.log" for number in (1, 2)]
    assert entry.text == f"{paths[0]}\nfirst\n<hidden: private key>\n{paths[1]}\nsecond\n"
    assert entry.redacted == 1


def test_texts_whose_names_cannot_be_replaced_in_time_are_left_out(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are there, instead of no archive."""
    replaced = []

    def replace(self: Pseudonyms, text: str) -> str:
        replaced.append(text)
        time.sleep(0.3)
        return text

    monkeypatch.setattr(Pseudonyms, "replace", replace)
    monkeypatch.setattr(collect, "_FINISH_S", 0.2)
    items = [Item(name, name, command(name)) for name in ("x", "y")]
    collector = collect.Collector(
        Root("/"), pseudonyms=Pseudonyms("salt"), read_command=lambda *_given: Raw("alice", 0)
    )
    first, second = collector.collect(items)
    assert first.text == "alice"
    assert (second.text, second.file, second.cut) == ("", "", "time")
    assert "too long" in second.note


def sos(words: Sequence[str], _limit_s: float, _most_bytes: int) -> Raw:
    """sos, which writes an archive with secrets, and NVIDIA's tool, which writes a compressed log."""
    folder = next(word for word in words if word.startswith("/") and "hpcai-diag-" in word)
    if words[0] == "sos":
        with tarfile.open(f"{folder}/sosreport-x.tar.xz", "w:xz") as made:
            texts = {
                "sos_commands/x": IN_LOGS["SAS"][0],
                "var/lib/cloud/user-data": "PLANTED",
                "etc/munge/munge.key": "PLANTED",
            }
            for name, text in {**texts, "bin": "a\0b"}.items():
                member = tarfile.TarInfo(f"sosreport-x/{name}")
                member.size = len(text)
                made.addfile(member, io.BytesIO(text.encode()))
    else:
        pathlib.Path(os.path.dirname(folder), "report.log.gz").write_bytes(gzip.compress(b"log\npassword=PLANTED\n"))
    return Raw("", 0)


def test_reports_of_other_tools_are_unpacked_and_searched_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Free(1 << 40))
    items = [item for item in catalog.CATALOG if item.extra]
    entries = {entry.item.name: entry for entry in collect.Collector(Root("/"), read_command=sos).collect(items)}
    assert entries["sos"].text.startswith("# /sos_commands/x\nGET https://a.blob.core.windows.net/c/f?")
    assert entries["nvidia_bug_report"].text == "# /report.log.gz\nlog\npassword=<hidden: named secret>\n"
    assert not [one for one in entries.values() if "PLANTED" in one.text or IN_LOGS["SAS"][1] in one.text]
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Free(0))
    entry = collect.Collector(Root("/"), read_command=sos).collect(items)[0]
    assert "not run" in entry.note


class _Free:
    """What shutil.disk_usage returns."""

    def __init__(self, free: int) -> None:
        self.free = free


def test_the_catalogue_never_names_what_must_not_be_read() -> None:
    names = [item.name for item in catalog.CATALOG]
    assert len(names) == len(set(names)) > 40
    for item in catalog.CATALOG:
        assert 0 < item.limit_s <= 300
        assert item.title and item.holds  # noqa: PT018
        if isinstance(item.source, Command):
            line = " ".join(item.source.words)
            assert not [
                word
                for word in ("write batch_script", "environ", "user-data", "%o", "%k", "%j", " args")
                if word in line
            ]
        elif isinstance(item.source, Tool):
            plugins = {word for words in item.source.words for word in words.split(",")}
            assert not plugins & {"azure", "cloud_init", "filesys", "process", "slurm", "systemd"}
        elif hasattr(item.source, "paths"):
            assert all(may_be_opened(path) for path in item.source.paths)


def test_reads_what_a_command_really_prints() -> None:
    entry = collect.Collector(Root("/"), read_command=read_command).collect([Item("x", "x", command("uname -s"))])[0]
    assert (entry.text, entry.exit) == ("Linux\n", 0)


def test_files_of_a_captured_tree_are_read(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "/proc/mdstat", "Personalities : [raid0]\n")
    entry = collect.Collector(Root(str(tmp_path))).collect([Item("raid", "x", files("/proc/mdstat"))])[0]
    assert entry.text == "# /proc/mdstat\nPersonalities : [raid0]\n"
