# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is installed: the sources of this node core."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import zipfile

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, payload
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

CORE = pathlib.Path(__file__).resolve().parents[7] / "plugins/module_utils/_node"


def test_sources_from_a_folder_are_all_its_files() -> None:
    on_disk = {str(path.relative_to(CORE)): path.read_bytes() for path in CORE.rglob("*.py")}
    assert payload.read_sources() == on_disk


@pytest.mark.parametrize("python", [sys.executable, "python3.9"])
def test_sources_from_a_zip_file_are_all_its_files(tmp_path: pathlib.Path, python: str) -> None:
    """As in AnsiballZ on a node: a zip file with only some of the sources, below other packages."""
    package = "a.b._node"
    content = {
        name: (CORE / name).read_bytes()
        for name in ("__init__.py", "setup/__init__.py", "setup/tools/__init__.py", "setup/tools/payload.py")
    }
    content |= {"cli/__init__.py": b"", "cli/main.py": "NAME = '\u00e4'\n".encode()}
    with zipfile.ZipFile(tmp_path / "payload.zip", "w") as archive:
        for name in ("a/__init__.py", "a/b/__init__.py"):
            archive.writestr(name, "")
        for name, text in content.items():
            archive.writestr(f"a/b/_node/{name}", text)
    (tmp_path / "read.py").write_text(
        f"import sys; sys.path.insert(0, {str(tmp_path / 'payload.zip')!r})\n"
        f"from {package}.setup.tools import payload\n"
        "sys.stdout.write(payload.digest_of(payload.read_sources()))\n",
        encoding="utf-8",
    )
    command = [python, str(tmp_path / "read.py")]
    try:
        read = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip(f"no {python} here")
    if "command not found" in read.stderr:
        pytest.skip(f"no {python} here")
    assert (read.stdout, read.stderr) == (payload.digest_of(content), "")


def test_a_payload_without_the_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing imported it, Ansible would not have packed it."""
    monkeypatch.setattr(payload, "__name__", "email.mime.text.x.y.z")
    monkeypatch.setattr(payload, "_collect", lambda *_arguments: None)
    with pytest.raises(ToolsError, match="this module contains no sources of hpcnode"):
        payload.read_sources()


def test_the_installed_sources_run_under_their_new_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = payload.tool_tree("0.1.0", payload.read_sources())
    for path, content in tree.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.import_module("hpcai_node.cli.main").main(["--version"]) == 0


def test_the_name_of_a_tree_depends_on_its_content() -> None:
    one = payload.tool_tree("1.0", {"a.py": b"1", "b.py": b"2"})
    assert payload.tool_tree("1.0", {"b.py": b"2", "a.py": b"1"}) == one
    others = [
        payload.tool_tree("1.0", {"a.py": b"2", "b.py": b"1"}),
        payload.tool_tree("1.0", {"a.py": b"1", "c.py": b"2"}),
        payload.tool_tree("1.0", {"a.py": b"1"}),
        payload.tool_tree("1.1", {"a.py": b"1", "b.py": b"2"}),
    ]
    assert len({one.name, *(other.name for other in others)}) == 5


def test_the_launcher_uses_a_python_that_survives_an_upgrade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(layout.sys, "executable", str(pathlib.Path("/usr/bin/python3").resolve()))
    assert layout.choose_interpreter(None) == "/usr/bin/python3"
    monkeypatch.setattr(layout.sys, "executable", str(tmp_path / "python"))
    assert layout.choose_interpreter(None) == str(tmp_path / "python")
    assert layout.choose_interpreter("/opt/python/bin/python3") == "/opt/python/bin/python3"


@pytest.mark.parametrize("path", ["python3", "/opt/my python/bin/python3", "/" + "x" * 120])
def test_an_interpreter_that_the_kernel_cannot_start_is_refused(path: str) -> None:
    with pytest.raises(ToolsError, match="Set interpreter"):
        layout.choose_interpreter(path)
