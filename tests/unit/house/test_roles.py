# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The argument_specs.yml, README.md and defaults of each role agree."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import role_variables
import yaml

# Facts are read as `ansible_facts['x']` only. These names are not facts but Ansible's own variables.
MAGIC = re.compile(
    r"ansible_("
    r"facts|host|port|user|connection|check_mode|diff_mode|managed|inventory_sources|collections?|collection_name|role_names?"
    r"|role_name|play_\w+|playbook_python|parent_role_\w+|run_tags|skip_tags|limit|verbosity|version|forks|config_file"
    r"|search_path|loop\w*|index_var|failed_\w+|become\w*|ssh_\w+|python_interpreter|local_temp|remote_tmp|pipelining|timeout"
    r"|async_dir|job_id|lint"
    r")"
)
LOOP = re.compile(r"\{%[-+]?\s*(?:for|set|macro)\b")
NO_SHELL = re.compile(r"^\s*(?:- )?(?:ansible\.builtin\.)?(?:shell|raw|script):", re.MULTILINE)


def load(path: pathlib.Path) -> Any:
    """The content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def roles(repository: pathlib.Path) -> list[pathlib.Path]:
    """The roles' folders."""
    found = sorted(path for path in (repository / "roles").iterdir() if path.is_dir())
    assert found
    return found


def options(role: pathlib.Path, entry_point: str = "main") -> dict[str, Any]:
    """The options of an entry point."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    return specs[entry_point].get("options") or {}


def defaults(role: pathlib.Path) -> dict[str, Any]:
    """The role's defaults, without private variables."""
    path = role / "defaults/main.yml"
    content = (load(path) or {}) if path.exists() else {}
    return {name: value for name, value in content.items() if not name.startswith("__")}


def test_the_page_of_all_role_variables_is_up_to_date(repository: pathlib.Path) -> None:
    assert role_variables.page(repository) == (repository / "docs/docsite/rst/role_variables.rst").read_text(
        encoding="utf-8"
    ), "run tests/setup/role_variables.py"


def test_the_page_of_all_role_variables_has_those_of_playbooks(
    repository: pathlib.Path, roles: list[pathlib.Path]
) -> None:
    page = (repository / "docs/docsite/rst/role_variables.rst").read_text(encoding="utf-8")
    files = sorted((repository / "playbooks").glob("*.yml"))
    prefixes = ("hpcai_", *(path.stem for path in files))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    read = {name for name in re.findall(r"(?<![\w.])([a-z]\w+) \| default\(", text) if name.startswith(prefixes)}
    # What a playbook has found out itself.
    read -= {"hpcai_uninstall_jobs"}
    assert len(read) > 50
    assert not [name for name in sorted(read) if f"   * - ``{name}``\n" not in page]


def test_each_variable_starts_with_its_roles_name_or_hpcai(roles: list[pathlib.Path]) -> None:
    """Variables that several roles share start with hpcai_."""
    wrong = [
        f"{role.name}: {name}"
        for role in roles
        for name in options(role)
        if not name.startswith((f"{role.name}_", "hpcai_"))
    ]
    assert not wrong


def test_each_role_has_argument_specs_and_a_readme(roles: list[pathlib.Path]) -> None:
    lacking = [
        f"{role.name}/{name}"
        for role in roles
        for name in ("meta/argument_specs.yml", "README.md")
        if not (role / name).is_file()
    ]
    assert not lacking


def test_each_default_is_a_documented_option(roles: list[pathlib.Path]) -> None:
    undocumented = [f"{role.name}: {name}" for role in roles for name in defaults(role).keys() - options(role).keys()]
    assert not undocumented


def test_each_optional_option_has_a_default(roles: list[pathlib.Path]) -> None:
    dangling = [
        f"{role.name}: {name}"
        for role in roles
        for name, option in options(role).items()
        if name not in defaults(role) and not option.get("required")
    ]
    assert not dangling


def test_documented_defaults_equal_the_real_ones(roles: list[pathlib.Path]) -> None:
    different = [
        f"{role.name}: {name} is {defaults(role)[name]!r}, documented as {option['default']!r}"
        for role in roles
        for name, option in options(role).items()
        if "default" in option and name in defaults(role) and option["default"] != defaults(role)[name]
    ]
    assert not different


def test_the_readme_lists_each_option(roles: list[pathlib.Path]) -> None:
    missing = [
        f"{role.name}: {name}"
        for role in roles
        for name in options(role)
        if f"`{name}`" not in (role / "README.md").read_text(encoding="utf-8")
    ]
    assert not missing


def test_entry_points_that_playbooks_use_are_documented(repository: pathlib.Path, roles: list[pathlib.Path]) -> None:
    def entry_points_used(node: Any) -> set[tuple[str, str]]:
        if isinstance(node, list):
            return {used for item in node for used in entry_points_used(item)}
        if not isinstance(node, dict):
            return set()
        used = {used for value in node.values() for used in entry_points_used(value)}
        for key in ("ansible.builtin.import_role", "ansible.builtin.include_role"):
            if key in node:
                used.add((node[key]["name"].rpartition(".")[2], node[key].get("tasks_from", "main")))
        return used

    playbooks = sorted((repository / "playbooks").glob("*.yml"))
    assert playbooks
    used = {pair for playbook in playbooks for pair in entry_points_used(load(playbook))}
    assert used
    specs = {role.name: load(role / "meta/argument_specs.yml")["argument_specs"] for role in roles}
    undocumented = {(name, entry) for name, entry in used if "{{" not in name and entry not in specs.get(name, {})}
    assert not undocumented


def test_facts_are_read_through_ansible_facts_only(
    repository: pathlib.Path, files: list[pathlib.PurePosixPath]
) -> None:
    injected = []
    for file in files:
        if file.parts[0] not in ("roles", "playbooks", "inventories", "molecule") or file.suffix not in (".yml", ".j2"):
            continue
        for number, line in enumerate((repository / file).read_text(encoding="utf-8").splitlines(), start=1):
            words = re.findall(r"(?<![\w./-])(?<!ansible_facts\[')ansible_\w+", line)
            injected += [f"{file}:{number}: {word}" for word in words if not MAGIC.fullmatch(word)]
    assert not injected


def test_roles_and_playbooks_contain_no_shell_commands(
    repository: pathlib.Path, files: list[pathlib.PurePosixPath]
) -> None:
    shells = [
        str(file)
        for file in files
        if file.parts[0] in ("roles", "playbooks")
        and file.suffix == ".yml"
        and NO_SHELL.search((repository / file).read_text(encoding="utf-8"))
    ]
    assert not shells


def test_variables_contain_no_loops(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    """A filter in plugins/filter can be tested and reports errors; a loop in a variable cannot."""
    yaml_files = [file for file in files if file.parts[0] in ("roles", "playbooks") and file.suffix == ".yml"]
    assert yaml_files
    assert not [str(file) for file in yaml_files if LOOP.search((repository / file).read_text(encoding="utf-8"))]


def test_no_task_registers_the_name_of_a_variable(roles: list[pathlib.Path]) -> None:
    """The result would replace the variable for the rest of the run, also where the tasks are included again."""
    found = []
    for role in roles:
        files = [*role.glob("defaults/**/*.yml"), *role.glob("vars/**/*.yml")]
        variables = {name for file in files for name in load(file) or {}}
        for file in role.glob("tasks/**/*.yml"):
            registered = re.findall(r"register: (\w+)", file.read_text(encoding="utf-8"))
            found += [f"{file.relative_to(role.parent)}: {name}" for name in registered if name in variables]
    assert found == []


def test_downloads_do_not_fail_in_check_mode(roles: list[pathlib.Path]) -> None:
    """get_url fails if its folder does not exist, and check mode of a first run creates no folder."""
    failing = []
    for role in roles:
        for file in role.glob("tasks/**/*.yml"):
            for task in load(file):
                if "ansible.builtin.get_url" in task and "not ansible_check_mode" not in str(task.get("when")):
                    failing.append(f"{file.relative_to(role.parent)}: {task['name']}")
    # Operating systems have the folders of repositories' keys.
    assert [name for name in failing if "signing key" not in name] == []


def repeated_keys(node: yaml.Node | None, where: str = "") -> list[str]:
    """The keys that a mapping both has and merges (``<<``), at any depth: Ansible warns of each in each run."""
    found = []
    if isinstance(node, yaml.MappingNode):
        own = {key.value for key, _value in node.value if key.tag != "tag:yaml.org,2002:merge"}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                found += [f"{where}.{one.value}" for each in merged for one, _value in each.value if one.value in own]
            else:
                found += repeated_keys(value, f"{where}.{key.value}")
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found += repeated_keys(item, where)
    return found


def test_no_mapping_replaces_a_key_that_it_merges(repository: pathlib.Path) -> None:
    assert repeated_keys(yaml.compose("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")) == [".b.y"]
    files = [path for folder in ("roles", "playbooks") for path in (repository / folder).rglob("*.yml")]
    merging = [path for path in files if "<<:" in path.read_text(encoding="utf-8")]
    assert merging
    for path in merging:
        assert not repeated_keys(yaml.compose(path.read_text(encoding="utf-8"))), path
