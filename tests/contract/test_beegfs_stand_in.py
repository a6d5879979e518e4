# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for BeeGFS behaves as other tests require: a file system over two nodes, with faults on request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins.beegfs import operations
from stand_ins.beegfs.build import build
from stand_ins.beegfs.two_nodes import FileSystem, Node, two_nodes, unable, wait

pytestmark = [pytest.mark.skipif(bool(unable()), reason=unable() or "able"), pytest.mark.timeout(120)]

Nodes = tuple[Node, Node]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MINIMUM_MB_PER_S = 20
CANCELED = 32
OPERATIONS = Path(operations.__file__ or "")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("beegfs")
    nodes = two_nodes(build(folder / "packages"), folder / "installed")
    yield nodes
    for node in nodes:
        node.end()


@pytest.fixture
def nodes(installed: Nodes) -> Iterator[Nodes]:
    """Both nodes. Faults are removed after each test."""
    yield installed
    for node in installed:
        node.faults()


@pytest.fixture(scope="module")
def up(installed: Nodes) -> FileSystem:
    """A file system, mounted on both nodes."""
    made = FileSystem(installed, 1000)
    made.start_all()
    made.mount(*installed)
    return made


def test_a_file_written_on_one_node_can_be_read_on_the_other(up: FileSystem, nodes: Nodes) -> None:
    first, second = nodes
    file = f"{up.mountpoint}/file"
    first.run("dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=8", "conv=fsync")
    there, here = (node.run("sha256sum", file).stdout for node in (second, first))
    assert there == here
    first.run("stat", file)
    second.run("sh", "-c", f"printf again > {file}")
    assert first.run("stat", "--format=%s", file).stdout == "5\n"
    assert first.run("cat", file).stdout == "again"
    second.run("rm", file)
    # Neither node caches old content or names.
    assert "No such file" in first.run("stat", file, check=False).stderr


def test_content_is_on_both_storage_servers_and_names_are_metadata(up: FileSystem, nodes: Nodes) -> None:
    file = f"{up.mountpoint}/spread"
    nodes[0].run("dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=6")

    def chunk_bytes() -> list[int]:
        find = ["find", f"{up.folder('storage')}/chunks", "-type", "f", "-printf", "%s "]
        return [sum(map(int, node.run(*find).stdout.split())) for node in nodes]

    before = chunk_bytes()
    assert all(size >= 3 << 20 for size in before)
    assert nodes[0].run("find", up.folder("meta"), "-name", "spread").stdout
    nodes[1].run("rm", file)
    assert [was - now for was, now in zip(before, chunk_bytes(), strict=True)] == [3 << 20, 3 << 20]
    assert not nodes[0].run("find", up.folder("meta"), "-name", "spread").stdout


def test_programs_can_use_it_as_any_file_system(up: FileSystem, nodes: Nodes) -> None:
    for number, node in enumerate(nodes):
        folder = f"{up.mountpoint}/work{number}"
        node.run("mkdir", folder)
        node.run("python3", str(OPERATIONS), folder, timeout=60)
    source = "/usr/lib/python3/dist-packages" if Path("/usr/lib/python3/dist-packages").exists() else "/etc"
    tree = sorted(Path(source).rglob("*.py"))[:30] or sorted(Path(source).glob("*.conf"))
    script = f'cd {up.mountpoint} && mkdir copy unpacked && cp -p "$@" copy && tar c copy | tar x -C unpacked'
    nodes[0].run("sh", "-c", script, "sh", *map(str, {one.name: one for one in tree}.values()))
    nodes[1].run("diff", "-r", f"{up.mountpoint}/copy", f"{up.mountpoint}/unpacked/copy")


def test_permissions_are_enforced(up: FileSystem, nodes: Nodes) -> None:
    first, second = nodes
    folder = f"{up.mountpoint}/private"
    first.run("install", "-d", folder)
    refused = second.run(*NOBODY, "touch", f"{folder}/own", check=False)
    assert "Permission denied" in refused.stderr
    first.run("chown", "65534:65534", folder)
    first.run("chmod", "0700", folder)
    second.run(*NOBODY, "touch", f"{folder}/own")
    assert first.run("stat", "--format=%u:%g", f"{folder}/own").stdout == "65534:65534\n"
    other = second.run("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "ls", folder, check=False)
    assert "Permission denied" in other.stderr


def test_the_stand_in_is_fast_enough_for_tests(up: FileSystem, nodes: Nodes) -> None:
    size, file = 64, f"{up.mountpoint}/fast"
    began = time.monotonic()
    nodes[0].run("dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={size}")
    written = time.monotonic()
    nodes[1].run("dd", f"if={file}", "of=/dev/null", "bs=1M")
    rates = size / (written - began), size / (time.monotonic() - written)
    assert min(rates) >= MINIMUM_MB_PER_S, rates


def test_lists_have_the_format_of_the_real_beegfs(up: FileSystem, nodes: Nodes) -> None:
    assert up.targets(nodes[1]) == (
        "TargetID     Reachability  Consistency   NodeID\n"
        "========     ============  ===========   ======\n"
        "       1           Online         Good        1\n"
        "       2           Online         Good        2\n"
    )
    assert up.ctl(nodes[1], "--nodetype=meta").stdout == "n1 [ID: 1]\n"
    assert sorted(up.ctl(nodes[1], "--nodetype=storage").stdout.split("\n"))[1:] == ["n1 [ID: 1]", "n2 [ID: 2]"]
    clients = up.ctl(nodes[0], "--nodetype=client").stdout
    assert [line.split("-")[2][:2] for line in clients.splitlines()] == ["n1", "n2"]
    assert up.ctl(nodes[0]).returncode == 1


def test_the_list_of_connections_shows_rdma_or_a_fallback(up: FileSystem, nodes: Nodes) -> None:
    def storage_connections() -> list[str]:
        shown = nodes[0].run("beegfs-net", "-n").stdout
        assert shown.startswith(
            "\nmgmt_nodes\n=============\nn1 [ID: 1]\n   Connections: TCP: 1 (10.99.0.1:9008); \n\n"
        )
        return [line for line in shown.partition("storage_nodes")[2].splitlines() if "Connections" in line]

    peers = [f"{node.address}:9003" for node in nodes]
    assert storage_connections() == [f"   Connections: TCP: 1 ({peer}); " for peer in peers]
    nodes[0].faults("client rdma")
    wait(lambda: storage_connections() == [f"   Connections: RDMA: 1 ({peer}); " for peer in peers])
    strict = FileSystem(nodes, 1000, name="strict", connTCPFallbackEnabled="false")
    strict.mount(nodes[0])
    nodes[0].run("umount", strict.mountpoint)
    nodes[0].faults("client rdma", "client tcp-fallback")
    wait(lambda: storage_connections() == [f"   Connections: TCP: 1 ({peer} [fallback route]); " for peer in peers])
    assert nodes[0].run(*strict.mount_command(), check=False).returncode == CANCELED


def test_writing_to_a_full_disk_fails(up: FileSystem, nodes: Nodes) -> None:
    for node in nodes:
        node.faults("storage disk-full")
    command = ["dd", "if=/dev/zero", f"of={up.mountpoint}/full", "bs=1M", "count=1"]
    full = nodes[0].run(*command, check=False)
    assert "No space left on device" in full.stderr
    assert nodes[0].run("stat", "--file-system", "--format=%a", up.mountpoint).stdout == "0\n"
    for node in nodes:
        node.faults("meta disk-full")
    assert "No space left on device" in nodes[0].run("mkdir", f"{up.mountpoint}/more", check=False).stderr
    for node in nodes:
        node.faults()
    nodes[0].run(*command)


def test_a_wrong_or_missing_secret_is_refused(up: FileSystem, nodes: Nodes) -> None:
    _first, second = nodes
    other = FileSystem(nodes, 1000, name="other", sysMountSanityCheckMS=500)
    second.write("/run/job/other/auth", "another secret")
    refused = other.ctl(second, "--nodetype=storage")
    assert (refused.returncode, refused.stderr) == (3, "Node download failed.\n")
    assert second.run(*other.mount_command(), check=False).returncode == CANCELED
    log = up.log(nodes[0], "mgmtd")
    assert "Peer sent wrong authentication: 10.99.0.2:" in log
    assert "Rejecting message from unauthenticated peer: 10.99.0.2:" in log
    # A missing secret is refused, too.
    none = FileSystem(nodes, 1100, connAuthFile="")
    done = second.run(
        "/opt/beegfs/sbin/beegfs-storage", f"cfgFile={none.configuration('storage')}", check=False, timeout=10
    )
    assert done.returncode == 3
    assert "Unrecoverable error: No connAuthFile configured" in done.stderr
    asked = none.ctl(second, "--nodetype=storage")
    assert (asked.returncode, "No connAuthFile configured" in asked.stderr) == (3, True)


def test_a_daemon_refuses_configuration_keys_of_other_daemons(nodes: Nodes) -> None:
    wrong = FileSystem(nodes, 1200)
    for kind, key in (("storage", "connUnmountRetries"), ("helperd", "storeAllowFirstRunInit")):
        command = [f"/opt/beegfs/sbin/beegfs-{kind}", f"cfgFile={wrong.configuration(kind)}", f"{key}=true"]
        refused = nodes[1].run(*command, check=False, timeout=10)
        assert (refused.returncode, f"The config argument '{key}' is invalid" in refused.stderr) == (1, True)


def test_a_mount_without_its_servers_is_canceled(nodes: Nodes) -> None:
    first, _unused = nodes
    lone = FileSystem(nodes, 2000, sysMountSanityCheckMS=500)

    def canceled() -> bool:
        tried = first.run(*lone.mount_command(), check=False)
        assert "beegfs" not in first.run("grep", "--", lone.mountpoint, "/proc/mounts", check=False).stdout
        return tried.returncode == CANCELED and "Operation canceled." in tried.stderr

    assert canceled()
    kernel_log = "/var/log/beegfs-stand-in-kernel.log"
    assert "Is beegfs-helperd running?" in first.read(kernel_log)
    lone.start(first, "helperd")
    wait(lambda: ":10006 " in first.run("ss", "-Hltn").stdout)
    assert canceled()
    assert "management server initialization timed out" in lone.log(first, "helperd")
    lone.start(first, "mgmtd", "storage")
    wait(lambda: "Online" in lone.targets(first))
    assert canceled()
    assert "Unable to proceed without a working root metadata node" in lone.log(first, "helperd")
    lone.start(first, "meta")
    wait(lambda: lone.ctl(first, "--nodetype=meta").stdout)
    lone.mount(first)
    first.run("umount", lone.mountpoint)
    assert lone.ctl(first, "--nodetype=client").stdout == ""


def test_daemons_hang_start_partly_or_die_on_request(nodes: Nodes) -> None:
    first, second = nodes
    faulty = FileSystem(nodes, 3000)
    faulty.start(first, "mgmtd", "storage")
    wait(lambda: "Online" in faulty.targets(first))
    first.faults("meta hang-at-start")
    second.faults("storage half-start", "helperd ignore-sigterm")
    faulty.start(first, "meta")
    faulty.start(second, "storage", "helperd")
    daemon = f"/opt/beegfs/sbin/beegfs-storage cfgFile={faulty.configuration('storage')}"
    wait(lambda: daemon in second.run("ps", "ax", "-o", "args").stdout.splitlines())
    wait(lambda: ":11003 " in second.run("ss", "-Hltn").stdout and ":11006 " in second.run("ss", "-Hltn").stdout)
    assert ":11005 " not in first.run("ss", "-Hltn").stdout
    assert faulty.ctl(first, "--nodetype=meta").stdout == ""
    assert faulty.targets(first).count("Online") == 1
    pids = {kind: faulty.running[node.name, kind] for node, kind in ((first, "meta"), (second, "storage"))}
    first.run("kill", pids["meta"])
    second.run("kill", pids["storage"], faulty.running["n2", "helperd"])
    wait(lambda: not first.runs(pids["meta"]) and not second.runs(pids["storage"]))
    assert second.runs(faulty.running["n2", "helperd"])
    second.run("kill", "-KILL", faulty.running["n2", "helperd"])
    wait(lambda: not second.runs(faulty.running["n2", "helperd"]))
    second.faults("storage dies-after 0.5")
    faulty.start(second, "storage")
    assert second.runs(faulty.running["n2", "storage"])
    wait(lambda: not second.runs(faulty.running["n2", "storage"]))


def test_a_port_or_folder_in_use_gives_the_real_error_message(nodes: Nodes) -> None:
    _unused, second = nodes
    taken = FileSystem(nodes, 4000)
    command = ["/opt/beegfs/sbin/beegfs-helperd", f"cfgFile={taken.configuration('helperd')}"]
    taken.start(second, "helperd")
    wait(lambda: ":12006 " in second.run("ss", "-Hltn").stdout)
    assert second.run(*command, check=False).returncode == 2
    assert "Unable to bind to port: 12006. SysErr: Address already in use" in taken.log(second, "helperd")
    second.faults("mgmtd port-taken")
    command = ["/opt/beegfs/sbin/beegfs-mgmtd", f"cfgFile={taken.configuration('mgmtd')}"]
    assert second.run(*command, check=False).returncode == 2
    second.faults()
    taken.start(second, "mgmtd")
    wait(lambda: ":12008 " in second.run("ss", "-Hltn").stdout)
    refused = second.run(*command, check=False)
    assert refused.returncode == 1
    assert "locking failed" in refused.stderr
    lone = second.run("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command, check=False)
    assert (lone.returncode, "Couldn't find any usable NIC" in lone.stderr) == (1, True)


def test_an_unmount_waits_for_a_stopped_management_daemon(up: FileSystem, nodes: Nodes) -> None:
    first, _unused = nodes
    again = FileSystem(nodes, 1000, name="again")
    once = FileSystem(nodes, 1000, name="once", connUnmountRetries="false")
    again.mount(first)
    once.mount(first)
    first.run("kill", up.running["n1", "mgmtd"])
    wait(lambda: not first.runs(up.running["n1", "mgmtd"]))
    first.run("umount", once.mountpoint)
    unmount = first.start("umount", again.mountpoint)
    wait(lambda: again.mountpoint not in first.read("/proc/mounts"))
    time.sleep(0.6)
    assert first.runs(unmount)
    asked = up.ctl(first, "--nodetype=meta")
    assert (asked.returncode, asked.stderr) == (3, "Management node communication failed: 10.99.0.1\n")
    up.start(first, "mgmtd")
    wait(lambda: not first.runs(unmount))
    wait(lambda: up.targets(first).count("Online") == 2)


def test_mount_and_unmount_hang_on_request(up: FileSystem, nodes: Nodes) -> None:
    _unused, second = nodes
    slow = FileSystem(nodes, 1000, name="slow")
    second.faults("client mount-hang")
    mount = second.start(*slow.mount_command())
    time.sleep(0.6)
    assert second.runs(mount)
    assert slow.mountpoint not in second.read("/proc/mounts")
    second.faults("client umount-hang")
    wait(lambda: not second.runs(mount) and slow.mountpoint in second.read("/proc/mounts"))
    # While a process uses the file system, a lazy unmount returns at once.
    user = second.start("sh", "-c", f"exec sleep 1000 > {slow.mountpoint}/held")
    wait(lambda: "held" in second.run("ls", slow.mountpoint).stdout)
    assert "target is busy" in second.run("umount", slow.mountpoint, check=False).stderr
    second.run("umount", "--lazy", slow.mountpoint)
    clients = up.ctl(second, "--nodetype=client").stdout
    second.run("kill", user)
    time.sleep(0.6)
    assert up.ctl(second, "--nodetype=client").stdout == clients
    second.faults()
    wait(lambda: up.ctl(second, "--nodetype=client").stdout.count("\n") == clients.count("\n") - 1)
    slow.mount(second)
    second.faults("client umount-hang")
    unmount = second.start("umount", slow.mountpoint)
    time.sleep(0.6)
    assert second.runs(unmount)
    second.faults()
    wait(lambda: not second.runs(unmount))


def test_a_reader_waits_for_a_stopped_storage_server(up: FileSystem, nodes: Nodes) -> None:
    first, second = nodes
    short_timeout = FileSystem(nodes, 1000, name="hasty", connCommRetrySecs=2)
    short_timeout.mount(first)
    first.run("dd", "if=/dev/zero", f"of={short_timeout.mountpoint}/waited", "bs=1M", "count=2")
    second.run("kill", "-KILL", up.running["n2", "storage"])
    read = ["dd", f"if={short_timeout.mountpoint}/waited", "of=/dev/null", "bs=1M"]
    began = time.monotonic()
    failed = first.run(*read, check=False)
    assert "Communication error on send" in failed.stderr
    assert time.monotonic() - began > 1.5
    # With the default timeout, a waiting process can still be killed.
    write = ["dd", "if=/dev/zero", f"of={up.mountpoint}/waited", "bs=2M", "count=1", "conv=notrunc"]
    waiting = first.start(*write)
    time.sleep(0.5)
    first.run("kill", "-KILL", waiting)
    wait(lambda: not first.runs(waiting))
    up.start(second, "storage")
    wait(lambda: first.run(*read, check=False).returncode == 0)
