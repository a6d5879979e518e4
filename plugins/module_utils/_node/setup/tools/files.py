# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files around the node tool: its launcher, and where its units lie."""

from __future__ import annotations

import os
import sys

from .payload import ToolsError

MARK = "# Installed by the module hpcai.azure.node_tools, which overwrites it."
"""Stands in each such file; one without it is somebody else's, and is left alone."""
UNIT_FOLDER = "/usr/lib/systemd/system"
ADMIN_UNIT_FOLDER = "/etc/systemd/system"

# -I: neither PYTHONPATH nor anybody's own packages may change what runs as root at boot.
# A new version takes the place of an old one by exchanging the link, and then removes the old one. A start in that very
# moment finds files missing, and begins again with what the link points to now. The same version may be back by then:
# whether the link was exchanged is told by the link, not by where it points to.
_LAUNCHER = """\
#!{interpreter} -I
{mark}
import os
import sys

sys.dont_write_bytecode = True
link = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib/hpcai/lib")


def state():
    now = os.lstat(link)
    return now.st_ino, now.st_ctime_ns, os.readlink(link)


def load():
    while True:
        before = state()
        folder = os.path.realpath(link)
        sys.path.insert(0, folder)
        try:
            from hpcai_node.cli.main import main
            return main
        except (ImportError, OSError):
            if state() == before:
                raise
        sys.path.remove(folder)
        sys.path_importer_cache.clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "hpcai_node"]:
            del sys.modules[name]


raise SystemExit(load()())
"""


def launcher(interpreter: str) -> str:
    """Return the text of /usr/bin/hpcnode."""
    return _LAUNCHER.format(interpreter=interpreter, mark=MARK)


def choose_interpreter(given: str | None) -> str:
    """Return the Python for the launcher: the given one, else the one that runs this.

    :raises ToolsError: the kernel could not start it from the launcher's first line.
    """
    stable = "/usr/bin/python3"
    # Ansible finds python3.11, which is gone after the next upgrade of the distribution.
    chosen = given or (stable if os.path.realpath(stable) == os.path.realpath(sys.executable) else sys.executable)
    if not os.path.isabs(chosen) or any(letter.isspace() for letter in chosen) or len(chosen) > 120:
        raise ToolsError(f"hpcnode cannot be run by {chosen!r}: set interpreter to an absolute path without spaces")
    return chosen
