# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make site` and the tests find or download the release files of enroot and pyxis, and keep those that they got."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from stand_ins.debian_package import make_package

SCRIPT = Path(__file__).resolve().parents[1] / "setup/enroot_files.sh"
ENROOT, PYXIS = "enroot/releases/download/v4.1.2", "pyxis/archive/refs/tags"


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, and records requests."""

    asked: list[str]

    def log_message(self, *_args: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """The URL of a server, its folder, and the paths of its requests."""
    folder, asked = tmp_path / "published", list[str]()
    (folder / ENROOT).mkdir(parents=True)
    (folder / PYXIS).mkdir(parents=True)
    handler = type("Counting", (Handler,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", folder, asked
    server.shutdown()
    server.server_close()


def find(repository: Path, script: str = SCRIPT.name, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of a script in another clone."""
    copy = repository / "tests/setup" / script
    copy.parent.mkdir(parents=True, exist_ok=True)
    for name in sorted({SCRIPT.name, "has_stand_ins.sh", script}):
        shutil.copy(SCRIPT.with_name(name), copy.with_name(name))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HPCAI_")}
    return subprocess.run(
        [str(copy)], capture_output=True, text=True, timeout=60, env={**kept, **environment}, check=False
    )


def package() -> str:
    """The package's name for this machine."""
    machine = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True, timeout=10)
    return f"enroot_4.1.2-1_{machine.stdout.strip()}.deb"


def test_a_given_folder_is_used(tmp_path: Path) -> None:
    assert find(tmp_path, HPCAI_ENROOT_FILES=str(tmp_path)).stdout == f"{tmp_path}\n"
    # An empty value disables containers, so the script makes no request.
    done = find(tmp_path, HPCAI_ENROOT_FILES="", HPCAI_ENROOT_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = find(tmp_path, HPCAI_ENROOT_FILES="/nonexistent")
    assert done.returncode == 1
    assert "HPCAI_ENROOT_FILES=/nonexistent: there is no such folder" in done.stderr


def test_files_are_downloaded_once_and_their_digests_printed(
    tmp_path: Path, published: tuple[str, Path, list[str]]
) -> None:
    url, folder, asked = published
    (folder / ENROOT / package()).write_bytes(b"enroot")
    (folder / PYXIS / "v0.24.0.tar.gz").write_bytes(b"pyxis")
    for _attempt in range(2):
        done = find(tmp_path, HPCAI_ENROOT_URL=url)
        assert done.stdout == f"{tmp_path}/.cache/enroot_release\n"
        assert f"{hashlib.sha256(b'enroot').hexdigest()}  {package()}\n" in done.stderr
    assert (tmp_path / ".cache/enroot_release" / package()).read_bytes() == b"enroot"
    assert len(asked) == 2


def test_a_missing_file_leaves_the_site_without_containers(
    tmp_path: Path, published: tuple[str, Path, list[str]]
) -> None:
    url, folder, _asked = published
    (folder / ENROOT / package()).write_bytes(b"enroot")
    done = find(tmp_path, HPCAI_ENROOT_URL=url)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"the release files of enroot and pyxis cannot be fetched from {url}" in done.stderr
    assert not list((tmp_path / ".cache/enroot_release").glob("v0*"))


def prepare(repository: Path, **environment: str) -> tuple[str, dict[str, bytes]]:
    """Prepare the files for the nodes of the tests; return the last line of output, and the files."""
    programs = repository / ".venv/bin"
    if not programs.exists():
        programs.mkdir(parents=True)
        (programs / "python").symlink_to(sys.executable)
        (repository / "tests/stand_ins").symlink_to(SCRIPT.parents[1] / "stand_ins")
    done = find(repository, "stand_ins.sh", **environment)
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes() for path in (repository / ".cache/enroot_pyxis").iterdir()}
    return done.stdout.splitlines()[-1], files


def test_given_files_are_used_and_never_overwritten(tmp_path: Path) -> None:
    given, clone = tmp_path / "given", tmp_path / "clone"
    given.mkdir()
    (clone / "tests/setup").mkdir(parents=True)
    released = {package(): b"enroot", "v0.24.0.tar.gz": b"pyxis"}
    for name, content in released.items():
        (given / name).write_bytes(content)
    line, files = prepare(clone, HPCAI_ENROOT_FILES=str(given))
    assert (line, files) == (f"enroot and pyxis: the release files of {given}", released)
    # A Molecule scenario names the folder that was filled before, with or without symbolic links and dots in its path.
    for name in (f"{clone}/.cache/enroot_pyxis", f"{clone}/tests/../.cache/enroot_pyxis/"):
        line, files = prepare(clone, HPCAI_ENROOT_FILES=name)
        assert (line, files) == (f"enroot and pyxis: the release files in {clone}/.cache/enroot_pyxis", released)


def test_the_summary_of_the_site_says_whether_enroot_and_pyxis_are_real(tmp_path: Path) -> None:
    def parts(*arguments: str) -> tuple[str, str]:
        script = str(SCRIPT.with_name("site_parts.sh"))
        done = subprocess.run([script, *arguments], capture_output=True, text=True, check=True, timeout=60)
        real, mark, simulated = done.stdout.partition("   Simulated:  ")
        assert mark
        return real, simulated

    stand_ins, released = tmp_path / "stand-ins", tmp_path / "released"
    for folder in (stand_ins, released):
        folder.mkdir()
        make_package(folder, "enroot", "4.1.2-1", depends="bash", purpose="Empty.", fill=lambda _root: None)
    # The release's package has a description of its own.
    (package_of_release,) = released.iterdir()
    package_of_release.write_bytes(b"enroot")
    real, simulated = parts(str(stand_ins))
    assert "enroot" not in real
    assert simulated.rstrip().endswith(f" enroot and pyxis are the stand-ins of {stand_ins}.")
    real, simulated = parts(str(released))
    assert f", enroot and pyxis of {released}." in real
    assert "enroot" not in simulated
    assert not [text for text in parts("") if "enroot" in text]
    # What `make site` prints at its end.
    script = SCRIPT.with_name("site.sh").read_text(encoding="utf-8")
    assert '\n$(tests/setup/site_parts.sh "$HPCAI_ENROOT_FILES")\n' in script
    assert "Real:" not in script


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the stand-ins need a C compiler")
def test_stand_ins_replace_given_files_if_none_are_given_any_more(tmp_path: Path) -> None:
    folder = tmp_path / ".cache/enroot_pyxis"
    folder.mkdir(parents=True)
    (tmp_path / "tests/setup").mkdir(parents=True)
    (folder / package()).write_bytes(b"enroot")
    (folder / "v0.24.0.tar.gz").write_bytes(b"pyxis")
    nowhere = {"HPCAI_ENROOT_URL": "http://127.0.0.1:9"}
    line, files = prepare(tmp_path, **nowhere)
    assert line.startswith("enroot and pyxis: stand-ins, because")
    assert (files[package()] != b"enroot", "v0.24.0.tar.gz" in files) == (True, False)
    # Stand-ins are never called release files.
    assert prepare(tmp_path, HPCAI_ENROOT_FILES=str(folder), **nowhere) == (line, files)
