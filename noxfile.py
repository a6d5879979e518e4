# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions for users of nox: `nox -l` lists them.

`nox -s unit` runs the step unit of `make test` and the steps that it needs; tests/setup/steps.py is the table of steps.
The other sessions are antsibull-nox's, each in its own environment; antsibull-nox.toml configures them.
"""

from __future__ import annotations

import pathlib
import sys

try:
    import antsibull_nox
    import nox
    import nox.registry
except ImportError:
    print("noxfile.py: antsibull-nox is missing; run `make setup`, then `.venv/bin/nox`", file=sys.stderr)
    sys.exit(1)

ROOT = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests/setup"))
from steps import STEPS  # noqa: E402

antsibull_nox.load_antsibull_nox_toml()


def add_session(step: str) -> None:
    """Add a session that runs one step through the runner of `make test`."""

    @nox.session(name=step, python=False, default=False)
    def run(session: nox.Session) -> None:
        session.run(sys.executable, str(ROOT / "tests/setup/run_checks.py"), step, external=True)


for one in STEPS:
    # antsibull-nox has a session yamllint too, with the same settings.
    if one.name not in nox.registry.get():
        add_session(one.name)
