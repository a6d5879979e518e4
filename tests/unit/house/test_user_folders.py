# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Below a folder that users can write to, root uses only machine/user_folders.py.

A user can redirect a call by path (os.makedirs, os.chown, shutil.rmtree, 'rm -rf'): the user replaces a folder with a
link while the call runs. So each function that makes such calls is listed below, with the reason why no user can
redirect them. Calls with dir_fd and on descriptors are allowed everywhere.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

NODE = "plugins/module_utils/_node/"
HELPERS = {f"{NODE}machine/user_folders.py"}
CALLS = {
    "os": {
        *("makedirs", "mkdir", "mkfifo", "mknod", "chown", "lchown", "chmod", "lchmod", "truncate", "link", "symlink"),
        *("unlink", "remove", "rmdir", "removedirs", "rename", "renames", "replace"),
    },
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree", "chown"},
    "tempfile": {"mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"},
}
COMMANDS = {
    *("rm", "rmdir", "chown", "chgrp", "chmod", "setfacl", "mount", "mkdir", "mktemp", "mv", "cp", "ln", "find"),
    *("install", "shred", "rsync"),
}
BY_DESCRIPTOR = {"dir_fd", "src_dir_fd", "dst_dir_fd"}

AS_USER = "hpcnode stage, checkpoint, train and enroot's importer run as the job's user, who gains no rights by it"
ROOTS_OWN = "files in /etc, /usr, /run/hpcai or /var, whose folders only root can write to"
SERVICE = "folders of slurmctld or the database on the controller: only their service accounts can write there"
MOUNT_POINT = "the mount point of the scratch or of BeeOND: walk() or the operator keeps users from changing its path"
NEW_NAME = "a new file or folder with an unpredictable name, in a folder with the sticky bit"
OPERATOR = "the image before it has users"

# By file: functions that make calls by path, and why no user can redirect them.
ALLOWED: dict[str, dict[str, str]] = {
    # As root, results are kept in a folder of root's own, unless root names another one.
    "bench/results.py": {"keep": AS_USER},
    # Refuses to run as root.
    "bench/storage.py": {"_own_folder": AS_USER},
    "boot/steps/instance.py": {"_identify": ROOTS_OWN},
    "cli/checkpoint.py": {"_fetch": AS_USER},
    "cli/checkpoint_store.py": {"Opened.__exit__": AS_USER},
    "cli/stage.py": dict.fromkeys(("_plan", "_clean", "_common_listing", "_with_logs", "_sweep", "_remove"), AS_USER),
    "diag/archive.py": {"_write": ROOTS_OWN},
    "diag/collect.py": {"Collector._tool": NEW_NAME},
    "diag/perform.py": {"upload_file": NEW_NAME},
    "elastic/book.py": {"read": ROOTS_OWN},
    "elastic/cost.py": {"set_aside": ROOTS_OWN},
    "elastic/daemon.py": {"_make_folders": ROOTS_OWN},
    "elastic/spool.py": {
        **dict.fromkeys(("beat", "listening"), ROOTS_OWN),
        # The spool is SlurmUser's; root opens its files without following links, and removes names only.
        **dict.fromkeys(("write", "take"), SERVICE),
    },
    "job/azcopy/tool.py": {"write_list": AS_USER, "_variables": AS_USER},
    "job/azcopy/transfer.py": {"download": AS_USER, "_with_list": AS_USER},
    "job/azcopy/work.py": {"new_folder": AS_USER},
    "job/beeond/install.py": {"apply": ROOTS_OWN},
    "job/beeond/mounting.py": {"give_to_user": MOUNT_POINT},
    "job/beeond/layout.py": {"write_state": ROOTS_OWN, "remove_run_folder": ROOTS_OWN},
    "job/beeond/beegfs.py": {"BeeGfs7.mount": MOUNT_POINT},
    "job/beeond/start.py": {"_bind_folder": "mounts the open folder that layout.make_inside gives"},
    # The timer, which runs as root, passes a folder of its own with --work.
    "job/checkpoint/attest.py": {"check_files": AS_USER},
    "job/checkpoint/restore.py": {"fetch": AS_USER, "_fetched": AS_USER, "_move_into_place": AS_USER},
    "job/checkpoint/store.py": {"read_texts": AS_USER, "write_text": AS_USER},
    "job/events/service.py": {"_listening": ROOTS_OWN},
    "job/hooks/install.py": {"apply": ROOTS_OWN},
    "job/hooks/runner.py": {"Log.__init__": ROOTS_OWN, "prune_logs": ROOTS_OWN},
    "job/stage/receive.py": {"accept": AS_USER},
    "job/stage/copy.py": {"copy": NEW_NAME},
    "job/stage/listing.py": {"shared_listing": AS_USER},
    "job/stage/manifest.py": {"Journal.__init__": AS_USER},
    "job/stage/apply.py": {"stage": AS_USER, "_clear_others": AS_USER, "_tidy": AS_USER},
    "job/unkillable.py": {"_show_connections": "/sys/fs/fuse/connections, where only the kernel makes files"},
    "ledger/decisions.py": {"append_decision": ROOTS_OWN},
    "ledger/gather.py": {"_checkpoints": NEW_NAME},
    "machine/atomic.py": {
        "write_file": ROOTS_OWN,
        "remove_file": ROOTS_OWN,
        "make_folders": ROOTS_OWN,
        "make_operators_folder": ROOTS_OWN,
    },
    "machine/lock.py": {"only_one": ROOTS_OWN},
    "machine/own_files.py": {"write_own": AS_USER},
    "metrics/progress.py": {"listening": ROOTS_OWN},
    "metrics/serve.py": {
        "_remove_old": "a fixed name, and only the exporter's service account can write above its folder"
    },
    "train/preflight.py": {"_folder": AS_USER},
    "machine/mounts.py": {"why_not_writable": NEW_NAME},
    "machine/progress.py": dict.fromkeys(
        ("ProgressFolder.__enter__", "ProgressFolder.__exit__"), "a new folder in /tmp that only its owner can enter"
    ),
    "setup/access/plan.py": {"remount_proc": "/proc, where only the kernel makes files"},
    "setup/containers/enroot.py": {"LinkChange.apply": ROOTS_OWN},
    "setup/containers/importer.py": dict.fromkeys(("get", "release", "evict", "_fetch", "_mark"), AS_USER),
    "setup/containers/pyxis.py": {
        "install": ROOTS_OWN,
        "remove": ROOTS_OWN,
        "compile_plugin": NEW_NAME,
        "_unpack": NEW_NAME,
        "_give_away": "gives files to the account nobody, which runs no jobs, and follows no link",
    },
    "setup/directories/apply.py": {
        "make_fallback": MOUNT_POINT,
        "_bind": "mounts the open folder that walk() gives",
    },
    "setup/image/generalise.py": {"apply": OPERATOR, "_lock_passwords": ROOTS_OWN},
    "setup/scratch/apply.py": dict.fromkeys(
        (
            *("Applier._mount", "Applier._remount", "Applier._own", "Applier._undo"),
            # These compare words; they run no command.
            *("Applier.apply", "_message"),
        ),
        MOUNT_POINT,
    ),
    "setup/tools/disk.py": dict.fromkeys(("apply", "_build", "_write", "_compile", "_remove"), ROOTS_OWN),
    "setup/users/homes.py": dict.fromkeys(
        ("make", "_copy", "_remove"), "beside the home, in a parent that users cannot write to: _refuse_open"
    ),
    "slurm/arbiter/machine_log.py": {"append_changes": ROOTS_OWN},
    "slurm/arbiter/records.py": {"read": SERVICE},
    "slurm/database.py": {"make_place": SERVICE},
    "slurm/dump.py": {"make_dump": SERVICE, "_fill": SERVICE, "_remove_partial": SERVICE},
    "slurm/ids.py": {"give": SERVICE},
    "slurm/slurmctld.py": {"preview": "a new folder in /tmp that only root can enter"},
    "slurm/spool.py": {"protect": ROOTS_OWN},
    "slurm/restore.py": {"_unpack": SERVICE, "_give_to_slurm": SERVICE},
}

# In roles and playbooks: commands, and Ansible's own modules on paths where users can write.
IN_TEXT = re.compile(
    r"""(?x) (?: ^ | [\s;&|"'`(\[{] ) (?:/usr)?(?:/bin/)?
    (?: rm \s+ -\w*[rf] | rmdir \s | chown \s | chgrp \s | chmod \s | setfacl \s | mkdir \s | mktemp \b | mv \s
      | shred \s | find \s .* -(?:delete|exec) | mount \s+ - )"""
)
OF_MODULES = re.compile(
    r"^\s*(?:path|dest|chdir):\s.*(?:scratch|work_folder|data_root|cache_path|/tmp\b|/dev/shm|/home\b|/run/lock)"
)
# Lines that OF_MODULES finds in roles and playbooks, and why no user can redirect them: part of the line, the reason.
ALLOWED_LINES = {"/etc/ansible/facts.d/hpcai_scratch.fact": ROOTS_OWN}


def _calls(tree: ast.AST, where: str = "") -> Iterator[tuple[str, int, str]]:
    """The function, the line and the name of each call by path, or of each command."""
    for node in ast.iter_child_nodes(tree):
        inside = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inside = f"{where}.{node.name}".strip(".")
        if isinstance(node, ast.Call) and any(word.arg in BY_DESCRIPTOR for word in node.keywords):
            # The call itself is allowed; its arguments are still checked.
            for part in (*node.args, *node.keywords):
                yield from _calls(part, inside)
            continue
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in CALLS.get(module, ()):
                yield where, node.lineno, f"{module}.{name}"
            case ast.List(elts=[ast.Constant(value=name), _, *_]) | ast.Tuple(elts=[ast.Constant(value=name), _, *_]):
                if name in COMMANDS:
                    yield where, node.lineno, str(name)
        yield from _calls(node, inside)


@pytest.fixture(scope="module")
def by_path(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> dict[tuple[str, str], list[str]]:
    """The calls by path in code that runs on nodes, by file and function."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in files:
        name = str(file)
        on_nodes = name.startswith(("plugins/module_utils/", "plugins/modules/"))
        if file.suffix == ".py" and on_nodes and name not in HELPERS:
            for function, line, call in _calls(ast.parse((repository / file).read_text(encoding="utf-8"))):
                found.setdefault((name.removeprefix(NODE), function), []).append(f"{name}:{line}: {call}")
    assert len(found) > 30, f"found only {len(found)} functions; these tests would prove nothing"
    return found


def test_only_listed_functions_make_calls_by_path(by_path: dict[tuple[str, str], list[str]]) -> None:
    unlisted = [
        f"{use} in {function}()"
        for (file, function), uses in by_path.items()
        for use in uses
        if function not in ALLOWED.get(file, {})
    ]
    assert not unlisted, "use machine/user_folders.py, or state in ALLOWED why no user can redirect this"


def test_each_listed_function_makes_calls_by_path(by_path: dict[tuple[str, str], list[str]]) -> None:
    stale = [(file, name) for file, functions in ALLOWED.items() for name in functions if (file, name) not in by_path]
    assert not stale


def test_no_role_makes_calls_by_path_where_users_can_write(
    repository: pathlib.Path, files: list[pathlib.PurePosixPath]
) -> None:
    checked = [
        file
        for file in files
        if file.parts[0] in ("roles", "playbooks") and file.suffix != ".md" and "meta" not in file.parts
    ]
    assert len(checked) > 50
    unlisted = [
        f"{file}:{number}: {line.strip()[:100]}"
        for file in checked
        for number, line in enumerate((repository / file).read_text(encoding="utf-8").splitlines(), start=1)
        if (IN_TEXT.search(line) and not line.lstrip().startswith("#")) or OF_MODULES.search(line)
        if not any(part in line for part in ALLOWED_LINES)
    ]
    assert not unlisted, "call hpcnode, which uses machine/user_folders.py, or a module that does"


def test_no_lock_file_is_where_users_can_write(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    open_to_users = re.compile(r"^\w*LOCK\w* = \"/(?:run/lock|var/lock|tmp|var/tmp|dev/shm|scratch)/", re.MULTILINE)
    names = [str(file) for file in files if file.suffix == ".py" and file.parts[0] == "plugins"]
    assert not [name for name in names if open_to_users.search((repository / name).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "text",
    [
        "import os\ndef f(path):\n    os.makedirs(path, exist_ok=True)",
        "import shutil\nshutil.rmtree('/scratch/x', ignore_errors=True)",
        "def f(run):\n    run(['chown', 'alice', path])",
        "RM = ('rm', '-rf', '--')",
        "import os\nremove = os.unlink",
    ],
)
def test_finds_a_call_by_path(text: str) -> None:
    assert list(_calls(ast.parse(text)))


def test_allows_a_call_by_descriptor() -> None:
    lines = (
        "os.mkdir('x', 0o700, dir_fd=here)",
        "os.rename('a', 'b', src_dir_fd=here, dst_dir_fd=here)",
        "os.fchown(1, 2, 3)",
    )
    assert not list(_calls(ast.parse("\n".join(lines))))


@pytest.mark.parametrize(
    "line",
    [
        '    [ -e "$folder/failed" ] || rm -rf "./$folder"',
        "      find . -maxdepth 1 -type d -name 'hpcai-*' -exec sh -c 'true' \\;",
        '    path: "{{ hpcai_scratch }}/jobs"',
        "  command: chown alice /scratch/alice",
        "        mkdir -p /scratch/x",
    ],
)
def test_finds_a_line_of_a_role_that_makes_a_call_by_path(line: str) -> None:
    assert IN_TEXT.search(line) or OF_MODULES.search(line)
