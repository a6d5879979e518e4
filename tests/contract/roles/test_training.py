# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role training copies recipes and trainers that only root can change, and removes them.

The tasks run on this machine in a mount namespace, where changes go to a file system in memory.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import pathlib
import subprocess
import threading
from typing import Any

import yaml
from stand_ins import own_folders

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import FOLDER, names

from .conftest import LOCAL

FILES = pathlib.Path(__file__).parents[3] / "roles/training/files"
ROLE = "hpcai.azure.training"
LIST = f"find {FOLDER} -printf '%P %m %U %y\\n' | sort"


def play(folder: pathlib.Path, tasks: list[dict[str, Any]], **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run tasks on this machine, in a namespace."""
    content = [{"hosts": "node", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    node = {**LOCAL, "ansible_facts": {}, **variables}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
    return own_folders.ansible_playbook(folder, "-i", "hosts.yml", "play.yml")


def role(name: str = "main.yml") -> dict[str, Any]:
    """A task that includes the role."""
    return {"ansible.builtin.include_role": {"name": ROLE, "tasks_from": name}}


def shell(command: str) -> dict[str, Any]:
    """A task that runs a command."""
    return {"ansible.builtin.shell": {"cmd": command}}


def test_images_are_installed_with_their_digest_and_refused_with_another(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x.sqsh").write_bytes(b"image")
    digest = hashlib.sha256(b"image").hexdigest()
    image = {"name": "torch", "file": str(tmp_path / "x.sqsh"), "sha256": digest}
    installed = f"/usr/share/hpcai/images/torch-{digest[:12]}.sqsh"
    again = [{"ansible.builtin.debug": {"msg": "AGAIN"}}, role(), {"ansible.builtin.debug": {"msg": "OVER"}}]
    tasks = [
        role(),
        shell(f"cp {installed} {tmp_path}/found"),
        *again,
        role("uninstall.yml"),
        shell(f"test ! -e {installed}"),
    ]
    done = play(tmp_path, tasks, training_images=[image])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed: [node]" not in done.stdout.partition("AGAIN")[2].partition("OVER")[0]
    assert (tmp_path / "found").read_bytes() == b"image"
    nothing = shell(f"test ! -e /usr/share/hpcai/images/torch-{'0' * 12}.sqsh")
    refused = {"block": [role()], "rescue": [nothing, {"ansible.builtin.fail": {"msg": "NOTHING WAS COPIED"}}]}
    done = play(tmp_path, [refused], training_images=[{**image, "sha256": "0" * 64}])
    assert done.returncode == 2
    assert "NOTHING WAS COPIED" in done.stdout
    assert f"has the SHA-256 {digest}, but training_images has {'0' * 64}" in " ".join(
        (done.stdout + done.stderr).split()
    )


def test_images_are_downloaded_and_an_image_with_another_digest_is_not_installed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/x.sqsh").write_bytes(b"image")
    digest = hashlib.sha256(b"image").hexdigest()
    installed = f"/usr/share/hpcai/images/torch-{digest[:12]}.sqsh"
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        image = {"name": "torch", "url": f"http://127.0.0.1:{served.server_address[1]}/x.sqsh", "sha256": digest}
        tasks = [
            role(),
            shell(f"cp {installed} {tmp_path}/found"),
            {"ansible.builtin.debug": {"msg": "AGAIN"}},
            role(),
        ]
        done = play(tmp_path, tasks, training_images=[image])
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "found").read_bytes() == b"image"
        assert "changed: [node]" not in done.stdout.partition("AGAIN")[2]
        nothing = shell(f'test -z "$(ls /usr/share/hpcai/images)" && touch {tmp_path}/nothing')
        other = {"block": [role()], "rescue": [nothing]}
        done = play(tmp_path, [other], training_images=[{**image, "sha256": "0" * 64}])
        served.shutdown()
    assert "The checksum for" in " ".join(done.stdout.split())
    assert (tmp_path / "nothing").exists(), done.stdout


def test_recipes_and_trainers_are_copied_for_all_users_and_removed(tmp_path: pathlib.Path) -> None:
    own = tmp_path / "own"
    (own / "recipes/mine").mkdir(parents=True)
    (own / "trainers").mkdir()
    (own / "recipes/mine/recipe.json").write_text("{}")
    (own / "trainers/fsdp.py").write_text("# mine\n")
    (own / "trainers/fsdp.py").chmod(0o700)
    tasks = [
        role(),
        shell(f"{LIST} >{tmp_path}/listed; cp -a {FOLDER} {tmp_path}/copied"),
        {"ansible.builtin.debug": {"msg": "AGAIN"}},
        role(),
        {"ansible.builtin.debug": {"msg": "OVER"}},
        role("uninstall.yml"),
        shell(f"test ! -e {FOLDER}"),
    ]
    done = play(tmp_path, tasks, training_files=str(own))
    assert done.returncode == 0, done.stdout + done.stderr
    again = done.stdout.partition('"msg": "AGAIN"')[2].partition('"msg": "OVER"')[0]
    assert "ok: [node]" in again
    # The first copy of a file that training_files replaces is never made.
    assert "changed: [node]" not in again, again
    listed = [line.rsplit(" ", 3) for line in (tmp_path / "listed").read_text().splitlines()]
    assert {(mode, owner, kind) for _path, mode, owner, kind in listed} == {("644", "0", "f"), ("755", "0", "d")}
    copied = tmp_path / "copied"
    assert names(str(copied)) == sorted([*names(str(FILES)), "mine"])
    assert (copied / "trainers/fsdp.py").read_text() == "# mine\n"
    assert (copied / "trainers/gpt.py").read_text() == (FILES / "trainers/gpt.py").read_text()
    assert json.loads((copied / "recipes/fsdp/recipe.json").read_text())["name"] == "fsdp"
