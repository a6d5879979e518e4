#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Update constraints.txt: the newest versions that are compatible, on Python 3.11 and on Python 3.12 or later.

Run it to update the pins, then run `make test`. It needs one interpreter of each kind.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# ansible-core 2.20 and Sphinx 9.1 dropped Python 3.11 (on the controller), so the pins differ from this version on.
SPLIT = "3.12"


def resolved_versions(interpreter: str) -> dict[str, str]:
    """Install the requirements into a temporary environment, and return the installed versions."""
    with tempfile.TemporaryDirectory() as folder:
        python = str(pathlib.Path(folder, "bin", "python"))
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--upgrade-strategy", "eager"]
        subprocess.run([*install, "--requirement", str(HERE / "requirements.in")], check=True)
        frozen = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    return dict(line.split("==") for line in frozen.splitlines() if "==" in line)


def merged(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """One line per package, or two with markers if the version depends on the interpreter."""
    lines = []
    for name in sorted({**old, **new}, key=str.lower):
        if old.get(name) == new.get(name):
            lines.append(f"{name}=={old[name]}")
            continue
        if name in old:
            lines.append(f'{name}=={old[name]} ; python_version < "{SPLIT}"')
        if name in new:
            lines.append(f'{name}=={new[name]} ; python_version >= "{SPLIT}"')
    return lines


def main() -> int:
    """Resolve on both interpreters and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="a Python 3.11")
    parser.add_argument("new", help=f"a Python {SPLIT} or later")
    arguments = parser.parse_args()
    lines = merged(resolved_versions(arguments.old), resolved_versions(arguments.new))
    file = HERE / "constraints.txt"
    head = [line for line in file.read_text(encoding="utf-8").splitlines() if not line or line.startswith("#")]
    file.write_text("\n".join(head + lines) + "\n", encoding="utf-8")
    print(f"constraints.txt: {len(lines)} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
