#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run `ansible-test sanity` over the working tree, without containers and without ignore files.

ansible-test requires a real folder .../ansible_collections/hpcai/azure inside a git tree, so the files are copied to
one below .cache. Arguments are passed on: `tests/setup/sanity.py --test validate-modules`.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = REPOSITORY / ".cache/sanity/ansible_collections/hpcai/azure"
# ansible-test would follow the link in this folder endlessly.
EXCLUDED = (".collections/",)

# ansible-test downloads a bootstrap script for pip from its own host, which is often unreachable, unless its cache has
# one. This script takes pip from the interpreter instead: every one that can make virtual environments has it.
BOOTSTRAP = """\
import ensurepip
import subprocess
import sys

ensurepip.bootstrap(default_pip=True)
pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
subprocess.run([*pip, *(argument for argument in sys.argv[1:] if "==" in argument)], check=True)
"""


def cache_folder() -> pathlib.Path:
    """Where ansible-test keeps its own environments. All clones of this repository share the folder."""
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "hpcai-azure"
    return pathlib.Path(os.environ.get("HPCAI_CACHE", default)) / "ansible-test"


def copy_working_tree() -> int:
    """Copy the files that git tracks or would add into the folder, and no others. Return their number."""
    shutil.rmtree(COLLECTION, ignore_errors=True)
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    copied = 0
    for name in filter(None, listing.split("\0")):
        source, target = REPOSITORY / name, COLLECTION / name
        # git still lists a file that was just deleted.
        if name.startswith(EXCLUDED) or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target, follow_symlinks=False)
        copied += 1
    subprocess.run(["git", "init", "--quiet"], cwd=COLLECTION, check=True)
    return copied


def prepare_home(python: str) -> pathlib.Path:
    """Give ansible-test its own home, with our script where it looks for the bootstrap script."""
    script = (
        "import types; from ansible_test._internal.python_requirements import get_venv_packages;"
        "print(get_venv_packages(types.SimpleNamespace(version='3'))['pip'])"
    )
    found = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    if found.returncode:
        last = (found.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"sanity.py: cannot find out which pip ansible-test requires ({last}); adapt prepare_home()")
    home = cache_folder()
    bootstrap = home / ".ansible/test/cache" / f"get_pip_{found.stdout.strip().replace('.', '_')}.py"
    bootstrap.parent.mkdir(parents=True, exist_ok=True)
    bootstrap.write_text(BOOTSTRAP, encoding="utf-8")
    return home


def main() -> int:
    """Copy the files, prepare ansible-test's home and run ansible-test."""
    binaries = pathlib.Path(sys.executable).parent
    if not (binaries / "ansible-test").exists():
        raise SystemExit(f"sanity.py: {binaries} has no ansible-test; run tests/setup/venv.sh, then use its Python")
    environment = {
        **os.environ,
        "HOME": str(prepare_home(sys.executable)),
        # Only this environment and the distribution's interpreters: version managers' wrappers break ansible-test.
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    print(f"[sanity] {copy_working_tree()} files, in {COLLECTION.relative_to(REPOSITORY)}", flush=True)
    command = [str(binaries / "ansible-test"), "sanity", "--color", "no", *sys.argv[1:]]
    run: set[str] = set()
    missing: set[str] = set()
    with subprocess.Popen(
        command, cwd=COLLECTION, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := re.search(r"Skipping .* on Python ([\d.]+) because it could not be found", line):
                missing.add(found[1])
            # ansible-test announces versions older than tests/config.yml requires as well, but does not run them.
            elif found := re.search(r'Running sanity test "import" on Python ([\d.]+)', line):
                run.update(found.groups() if shutil.which(f"python{found[1]}", path=environment["PATH"]) else ())
    if process.returncode == 0:
        imported = f"; imported on Python {in_order(run)}" if run else ""
        gap = f"; not on {in_order(missing)}, which are not installed" if missing else ""
        print(f"[sanity] clean, without ignore files{imported}{gap}")
    return process.returncode


def in_order(versions: set[str]) -> str:
    """Python versions as a text, sorted by number: 3.9 before 3.10."""
    return ", ".join(sorted(versions, key=lambda version: int(version.partition(".")[2])))


if __name__ == "__main__":
    raise SystemExit(main())
