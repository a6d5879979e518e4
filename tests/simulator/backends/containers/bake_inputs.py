# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of this repository the baked image is made of, so that it is baked again when one of them changes.

Follows playbooks/image.yml: the roles it names, the task files those include from the given entry point, the
templates, files and plugins named there. A name that only Ansible can know (a template expression) counts as
"all of that kind".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

COLLECTION = "hpcai.azure."
ROLE_WORDS = ("import_role", "include_role")
TASK_WORDS = ("import_tasks", "include_tasks")
ALWAYS = ("defaults", "vars", "meta", "handlers")
PLUGIN_KINDS = ("modules", "action", "filter", "lookup", "test")
NODE_KINDS = ("module_utils",)


def bake_inputs(repository: Path) -> list[Path]:
    """All files the bake reads, sorted."""
    walk = _Walk(repository)
    walk.playbook(repository / "playbooks" / "image.yml")
    return sorted(walk.files)


class _Walk:
    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.files: set[Path] = set()
        self._seen_roles: set[tuple[str, str]] = set()

    def playbook(self, path: Path) -> None:
        text = self._take(path)
        for play in yaml.load(text, Loader=_Loader) or []:
            for role in play.get("roles") or []:
                self.role(str(role.get("role", role.get("name")) if isinstance(role, dict) else role), "main")
            for key in ("vars_files",):
                for name in play.get(key) or []:
                    self._take(path.parent / str(name))
        self._follow(text, path.parent)
        self.plugins(text)

    def role(self, name: str, entry: str) -> None:
        name = name.removeprefix(COLLECTION)
        folder = self.repository / "roles" / name
        if (name, entry) in self._seen_roles or not folder.is_dir():
            return
        self._seen_roles.add((name, entry))
        texts = []
        for part in ALWAYS:
            texts += [self._take(path) for path in _files_below(folder / part)]
        for path in self._task_files(folder / "tasks", entry):
            texts.append(self._take(path))
        for text in texts:
            self._follow(text, folder / "tasks")
            self.plugins(text)
        self._sources(folder, "\n".join(texts))
        for path in _files_below(folder / "meta"):
            for dependency in (yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader) or {}).get(
                "dependencies"
            ) or []:
                self.role(str(dependency.get("role") if isinstance(dependency, dict) else dependency), "main")

    def plugins(self, text: str) -> None:
        named = set(re.findall(re.escape(COLLECTION) + r"(\w+)", text))
        plugins = self.repository / "plugins"
        found = [plugins / kind / f"{name}.py" for kind in PLUGIN_KINDS for name in sorted(named)]
        found = [path for path in found if path.is_file()]
        for path in found:
            self._take(path)
        if found or "module_utils" in text:
            for kind in NODE_KINDS:
                for path in _files_below(plugins / kind):
                    self._take(path)

    def _follow(self, text: str, folder: Path) -> None:
        for task in _mappings(yaml.load(text, Loader=_Loader)):
            for key, value in task.items():
                word = str(key).rsplit(".", 1)[-1]
                if word in ROLE_WORDS and isinstance(value, dict):
                    self._role_by_name(str(value.get("name", "")), Path(str(value.get("tasks_from", "main"))).stem)

    def _role_by_name(self, name: str, entry: str) -> None:
        roles = self.repository / "roles"
        names = [path.name for path in roles.iterdir()] if "{{" in name and roles.is_dir() else [name]
        for one in names:
            self.role(one, entry)

    def _task_files(self, folder: Path, entry: str) -> set[Path]:
        found: set[Path] = set()
        open_ends = [folder / f"{entry}{suffix}" for suffix in (".yml", ".yaml")]
        while open_ends:
            path = open_ends.pop()
            if path in found or not path.is_file():
                continue
            found.add(path)
            for task in _mappings(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)):
                for key, value in task.items():
                    if str(key).rsplit(".", 1)[-1] in TASK_WORDS:
                        name = str(value.get("file", "") if isinstance(value, dict) else value)
                        open_ends += _files_below(folder) if "{{" in name else [folder / name, path.parent / name]
        return found

    def _sources(self, folder: Path, text: str) -> None:
        """Templates and files that the text names; all of them where it names one by an expression."""
        unknown = re.search(r"^\s*src:.*\{\{", text, flags=re.MULTILINE) is not None
        for part in ("templates", "files"):
            for path in _files_below(folder / part):
                if unknown or path.name in text or path.parent.name in text:
                    self._take(path)

    def _take(self, path: Path) -> str:
        if not path.is_file():
            return ""
        self.files.add(path)
        return path.read_text(encoding="utf-8", errors="replace")


class _Loader(yaml.SafeLoader):
    """Reads Ansible's own tags (!vault, !unsafe) as the plain values they wrap."""


def _plain(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _plain)


def _mappings(value: Any) -> Iterator[dict[Any, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _mappings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _mappings(inner)


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
