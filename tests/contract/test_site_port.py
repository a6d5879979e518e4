# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make site` while another program has its port: the real simulator, without the preparation of the host.

Not at the port of `make site`, because a site may run on this machine.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from simulated.cluster import REPOSITORY
from simulator.cli import SCENARIOS

PYTHON = """\
#!/bin/sh
# Without machines, and with the state in the folder of the test.
[ "$2" = simulator ] || exit 1
command=$3
shift 3
for word; do shift; [ "$word" != containers ] || word=none; set -- "$@" "$word"; done
[ "$command" != up ] || set -- "$@" --port={port}
exec env PYTHONPATH={tests} {python} -m simulator "$command" "$@" --state-dir={state}
"""


def write(path: Path, text: str) -> None:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def test_make_site_says_what_to_do_if_another_program_has_its_port(tmp_path: Path) -> None:
    setup = tmp_path / "tests/setup"
    setup.mkdir(parents=True)
    for name in ("site.sh", "estimate.sh"):
        shutil.copy(REPOSITORY / "tests/setup" / name, setup)
    for name in ("host.sh", "venv.sh", "enroot_files.sh"):
        write(setup / name, "#!/bin/sh\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        values = {"tests": REPOSITORY / "tests", "python": sys.executable, "state": tmp_path / ".simulator/site"}
        write(tmp_path / ".venv/bin/python", PYTHON.format(**values, port=port))
        done = subprocess.run(
            [str(setup / "site.sh"), "up"], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in done.stderr
    assert "make site: starting the simulated subscription failed" in done.stderr
    # It has no option for another port.
    (own,) = re.findall(r"^port: (\d+)$", (SCENARIOS / "empty.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"'make site' always uses port {own}: end the program that has it." in done.stderr
    assert "run 'make site-down' in its clone" in done.stderr
    # The next step.
    assert "4/12" not in done.stdout
