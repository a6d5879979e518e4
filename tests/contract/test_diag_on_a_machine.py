# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode diag as a process: on file systems that are really full, beside other work, and with the real sos."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

import psutil
import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import reading

SRC = pathlib.Path(__file__).resolve().parents[2] / "plugins/module_utils"
HPCNODE = [sys.executable, "-c", "from _node.cli.main import main; raise SystemExit(main())", "diag", "collect"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SRC)}
FULL = "mount -t tmpfs -o size=1m tmpfs {0}; cp -a {1}/. {0}; ! head -c 2M /dev/zero > {0}/fill 2>/dev/null"
"""A file system with a copy of a folder, and without a free block."""


def alone(script: str, *words: str) -> list[str]:
    """Return a command that runs a script with own mounts, and then hpcnode with these words in place of ``$@``."""
    return ["unshare", "--mount", "sh", "-euc", script, "sh", *words]


@pytest.fixture(scope="module", autouse=True)
def mounts() -> None:
    if subprocess.run(alone("mount -t tmpfs tmpfs /mnt"), capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system, and not in each container")


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> pathlib.Path:
    """The files of a machine."""
    texts = {
        "etc/hostname": "batch-3\n",
        "var/log/slurm/slurmd.log": "the log of slurmd\n",
        "run/hpcai/health/periodic.json": json.dumps({"schema": 1, "tier": "periodic", "checks": []}),
    }
    for name, text in texts.items():
        path = tmp_path / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "machine/var/lib/hpcai/diag").mkdir(parents=True)
    return tmp_path / "machine"


def collected(machine: pathlib.Path, *full: str, more: str = ":") -> subprocess.CompletedProcess[str]:
    """Collect the diagnostics of a machine with full file systems, and show what is in their folders then.

    :param full: the folders of these file systems.
    :param more: another command before.
    """
    steps = [FULL.format(machine / folder, machine / "copies" / folder) for folder in full]
    for folder in full:
        shutil.copytree(machine / folder, machine / "copies" / folder)
    script = "; ".join([*steps, more, '"$@" || echo "status $?"', f"find {machine / 'var'} -type f"])
    words = [*HPCNODE, "--root", str(machine)]
    environment = {**ENVIRONMENT, "TMPDIR": str(machine / "var")}
    return subprocess.run(alone(script, *words), env=environment, capture_output=True, text=True, check=False)


def archives(folder: pathlib.Path) -> list[pathlib.Path]:
    """The archives in a folder."""
    return sorted(folder.glob("hpcai-diag-batch-3-*.tar.gz"))


def test_on_a_full_disk_the_archive_is_complete_and_in_memory(machine: pathlib.Path) -> None:
    done = collected(machine, "var")
    (made,) = archives(machine / "run/hpcai/diag")
    assert done.stdout.startswith(f"/run/hpcai/diag/{made.name}: "), done.stdout + done.stderr
    assert "status" not in done.stdout
    # Nothing is left on the full disk.
    files = [line for line in done.stdout.splitlines() if line.startswith(str(machine / "var"))]
    assert sorted(files) == [str(machine / "var/fill"), str(machine / "var/log/slurm/slurmd.log")]
    with tarfile.open(made) as archive:
        texts = {name.rpartition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        log = texts["slurmd_log.txt"]
        assert log is not None
        assert b"the log of slurmd" in log.read()


def test_on_a_disk_without_inodes_the_archive_is_in_memory(machine: pathlib.Path) -> None:
    """Space is free, but no file can be created."""
    folder = machine / "var/lib/hpcai/diag"
    done = collected(machine, more=f"mount -t tmpfs -o size=200m,nr_inodes=1 tmpfs {folder}")
    (made,) = archives(machine / "run/hpcai/diag")
    assert done.stdout.startswith(f"/run/hpcai/diag/{made.name}: "), done.stdout + done.stderr


def test_without_room_on_disk_and_in_memory_there_is_one_error_that_says_what_to_do(machine: pathlib.Path) -> None:
    done = collected(machine, "var", "run")
    assert "status 1" in done.stdout, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert "/var/lib/hpcai/diag: " in line
    assert "/run/hpcai/diag: " in line
    assert line.endswith("Free some space, or use --output -.")


def test_everything_that_a_collection_starts_has_the_lowest_priority_and_it_needs_little_memory(
    tmp_path: pathlib.Path,
) -> None:
    """So it cannot slow down a job on the node: a process of a job gets 68 times its share of a CPU."""
    # With its own /run, so that it does not meet another collection of this machine.
    command = alone('mount -t tmpfs tmpfs /run; exec "$@"', *HPCNODE, "--limit", "60", "--output", str(tmp_path))
    usual = ["nice", f"--adjustment={-os.nice(0)}"]
    seen: dict[str, set[int]] = {}
    peak = 0
    with subprocess.Popen([*usual, *command], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            used = 0
            with contextlib.suppress(psutil.NoSuchProcess):
                used += tree.memory_info().rss
                # Before, it is the shell that mounts.
                for child in tree.children(recursive=True) if tree.name().startswith("python") else ():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        seen.setdefault(child.name(), set()).add(child.nice())
                        used += child.memory_info().rss
            peak = max(peak, used)
            time.sleep(0.002)
        output = process.communicate()[0]
    assert process.returncode == 0, output
    assert len(list(tmp_path.glob("hpcai-diag-*.tar.gz"))) == 1
    # Those that end at once are not always seen.
    assert len(seen) >= 3, seen
    assert {nice for found in seen.values() for nice in found} == {19}, seen
    assert peak < 512 << 20
    print("\nseen:", sorted(seen), "MiB:", peak >> 20)


SOS = """\
import os, pathlib, shutil, sys
from _node.diag import catalog, collect, reading
from _node.machine.root import Root
reading.ENVIRONMENT["PATH"] = os.path.dirname(sys.argv[1]) + ":" + reading.ENVIRONMENT["PATH"]
(item,) = [one for one in catalog.CATALOG if one.name == "sos"]
(entry,) = collect.Collector(Root(), limit_s=item.limit_s).collect([item])
pathlib.Path(sys.argv[2]).write_text(entry.text)
print(entry.exit, entry.cut, entry.note)
"""


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_report_of_sos_has_no_command_lines_environments_and_mount_options(tmp_path: pathlib.Path) -> None:
    """Its redaction finds a few kinds of passwords only, and words of a user look like no secret."""
    path = f"{os.environ['PATH']}:{reading.ENVIRONMENT['PATH']}"
    program = shutil.which("sos", path=path)
    if program is None:
        pytest.skip("sos is not installed: apt install sosreport")
    words = [sys.executable, "-c", SOS, program, str(tmp_path / "text")]
    mount = 'mount -t tmpfs -o uid=54321 tmpfs /mnt; exec "$@"'
    planted = {"PLANTED": "ordinaryWordsOfAnEnvironment"}
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)", "ordinaryWordsOfACommand"]
    with subprocess.Popen(sleeping, env={**os.environ, **planted}) as process:
        try:
            done = subprocess.run(
                alone(mount, *words), env={**ENVIRONMENT, **planted}, capture_output=True, text=True, check=False
            )
        finally:
            process.kill()
    assert (done.stdout, done.stderr) == ("0  \n", "")
    text = (tmp_path / "text").read_text()
    for part in ("# /proc/meminfo", "# /sos_commands/kernel/dmesg", "# /sos_commands/block/lsblk"):
        assert f"\n{part}\n" in text
    found = [one for one in ("ordinaryWordsOfACommand", "ordinaryWordsOfAnEnvironment", "uid=54321") if one in text]
    assert not found
    print("\nMiB:", len(text) >> 20)
