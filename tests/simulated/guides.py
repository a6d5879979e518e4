# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scripts as the guides print them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/docsite/rst"


def printed_script(guide: str, language: str = "bash", number: int = 0) -> str:
    """A script of a guide, such as ``guide_checkpoints``: the first one in a language, or a later one."""
    text = (FOLDER / f"{guide}.rst").read_text(encoding="utf-8")
    found = re.findall(rf"code-block:: {language}\n\n((?:    .*\n|\n)+)", text)
    assert len(found) > number, guide
    return textwrap.dedent(found[number])
