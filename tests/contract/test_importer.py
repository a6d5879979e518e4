# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The importer, run as a program as pyxis runs it, with a fake enroot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
_HPCNODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from _node.cli.main import main; sys.exit(main())"

_ENROOT = """\
#!/usr/bin/env bash
# Prints the digest from the file with the image's name, and imports $FAKE_BYTES bytes.
echo "$@" >> "$FAKE/calls"
case "$1" in
digest) cat "$FAKE/digest-${2##*/}" ;;
import)
    [ -e "$FAKE/broken" ] && { echo "[ERROR] Could not reach the registry" >&2; exit 1; }
    [ -e "$FAKE/slow" ] && sleep 1
    head -c "${FAKE_BYTES:-1000}" /dev/zero > "$3"
    echo "$ENROOT_SQUASH_OPTIONS" > "$FAKE/options" ;;
esac
"""


class Site:
    """A user's importer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fake, self.cache = folder, folder / "fake", folder / "images"
        (folder / "bin").mkdir()
        self.fake.mkdir()
        (folder / "bin/enroot").write_text(_ENROOT)
        (folder / "bin/enroot").chmod(0o755)
        self.settings(1)

    def settings(self, limit_gib: float) -> None:
        """Write /etc/hpcai/containers.json."""
        (self.folder / "etc/hpcai").mkdir(parents=True, exist_ok=True)
        config = {"schema": 1, "cache_path": str(self.cache), "cache_limit_gib": limit_gib}
        config["settings"] = {"ENROOT_RUNTIME_PATH": f"{self.folder}/run/user-$(id -u)"}
        (self.folder / "etc/hpcai/containers.json").write_text(json.dumps(config))

    def image(self, name: str, digit: str) -> str:
        """Add an image to the registry."""
        (self.fake / f"digest-{name}").write_text(f"sha256:{digit * 64}\n")
        return f"docker://registry#team/{name}"

    def start(self, *words: str, job: int = 7, step: int = 0, size: int = 1000) -> subprocess.Popen[str]:
        """Start the importer in a step."""
        environment = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "FAKE": str(self.fake),
            "FAKE_BYTES": str(size),
            "SLURM_JOB_ID": str(job),
            "SLURM_STEP_ID": str(step),
        }
        command = [sys.executable, "-I", "-c", _HPCNODE, str(REPOSITORY / "plugins/module_utils")]
        return subprocess.Popen(
            [*command, "--root", str(self.folder), "containers", "importer", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, job: int = 7, step: int = 0, size: int = 1000) -> tuple[int, str]:
        """Run the importer; return its exit status and its output."""
        started = self.start(*words, job=job, step=step, size=size)
        out, err = started.communicate(timeout=60)
        return started.returncode, (out or err).strip()

    def imports(self) -> list[str]:
        """The imports so far."""
        calls = self.fake / "calls"
        return [line for line in calls.read_text().splitlines() if line.startswith("import")] if calls.exists() else []

    def images(self) -> list[str]:
        """The digits of the images in the cache."""
        return sorted(path.name[7] for path in self.cache.glob("*/sha256:*.sqsh"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An importer without images."""
    return Site(tmp_path)


def test_an_image_is_fetched_once_by_its_digest_and_belongs_to_its_user(site: Site) -> None:
    uri = site.image("pytorch", "a")
    status, path = site.run("get", uri)
    assert (status, path) == (0, f"{site.cache}/user-{os.geteuid()}/sha256:{'a' * 64}.sqsh")
    assert Path(path).stat().st_size == 1000
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert site.run("get", uri, job=8) == (0, path)
    assert len(site.imports()) == 1
    assert site.imports()[0].endswith(f"{uri}@sha256:{'a' * 64}")
    assert "zstd" in (site.fake / "options").read_text()


def test_a_tag_with_a_new_digest_is_fetched_again(site: Site) -> None:
    uri = site.image("pytorch", "a")
    site.run("get", uri)
    site.image("pytorch", "b")
    assert "b" * 64 in site.run("get", uri)[1]
    assert site.images() == ["a", "b"]


def test_two_concurrent_imports_fetch_an_image_once(site: Site) -> None:
    uri = site.image("pytorch", "a")
    (site.fake / "slow").touch()
    both = [site.start("get", uri, job=job) for job in (1, 2)]
    paths = [started.communicate(timeout=60)[0].strip() for started in both]
    assert paths[0] == paths[1]
    assert len(site.imports()) == 1


def test_the_oldest_images_are_removed_unless_they_are_in_use(site: Site) -> None:
    site.settings(2500 / (1 << 30))
    for job, digit in enumerate("abc"):
        assert site.run("get", site.image(digit, digit), job=job)[0] == 0
        if digit != "a":
            assert site.run("release", job=job) == (0, "")
        time.sleep(0.01)
    # a is the oldest, but its step still runs.
    assert site.images() == ["a", "c"]
    site.run("release", job=0)
    site.run("get", site.image("d", "d"), job=9)
    assert site.images() == ["c", "d"]


def test_a_failed_import_leaves_nothing_and_reports_the_cause(site: Site) -> None:
    (site.fake / "broken").touch()
    status, message = site.run("get", site.image("pytorch", "a"))
    assert status == 1
    assert (
        "docker://registry#team/pytorch cannot be imported; enroot import failed with: [ERROR] Could not reach"
        in message
    )
    assert [path.name for path in site.cache.glob("*/*") if path.name.endswith((".sqsh", ".part"))] == []


def test_a_registry_that_returns_no_digest_is_an_error(site: Site) -> None:
    (site.fake / "digest-pytorch").write_text("nonsense\n")
    assert "returned no digest of docker://x/pytorch" in site.run("get", "docker://x/pytorch")[1]
    assert site.imports() == []


def test_release_can_run_twice_and_removes_incomplete_images(site: Site) -> None:
    site.run("get", site.image("pytorch", "a"))
    folder = site.cache / f"user-{os.geteuid()}"
    (folder / ".7.0.sha256:x.part").touch()
    (folder / ".8.0.sha256:x.part").touch()
    assert site.run("release") == (0, "")
    assert site.run("release") == (0, "")
    assert [path.name for path in folder.glob("*.part") if path.name.startswith(".")] == [".8.0.sha256:x.part"]


def test_a_folder_that_others_can_access_is_refused(site: Site) -> None:
    (site.cache / f"user-{os.geteuid()}").mkdir(parents=True)
    (site.cache / f"user-{os.geteuid()}").chmod(0o777)
    assert "does not belong to this user" in site.run("get", site.image("pytorch", "a"))[1]


def test_outside_a_job_step_it_is_an_error(site: Site) -> None:
    started = site.start("get", site.image("pytorch", "a"), job=-1)
    assert "Only pyxis may call the importer" in started.communicate(timeout=60)[1]
