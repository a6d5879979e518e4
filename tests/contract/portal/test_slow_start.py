# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal on a machine that is so busy that programs start slowly: real JupyterHub and proxy."""

from __future__ import annotations

import pathlib

import pytest
from stand_ins import monitor
from stand_ins import portal as stand_in
from stand_ins.blob.certificate import certificate_for

# JupyterHub's own limit is 30 s.
SLOW_S = 40


@pytest.mark.thorough
def test_a_page_that_starts_slowly_does_not_end_the_hub(tmp_path: pathlib.Path) -> None:
    """The hub ended before the page's server answered, and began again: nobody could log in."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nsleep {SLOW_S}\nexec {stand_in.programs()}/hub/bin/python "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    certificate = certificate_for("portal", "127.0.0.1", tmp_path)
    certificate.public.rename(tmp_path / "tls.crt")
    certificate.key.rename(tmp_path / "tls.key")
    page = {"name": "news", "path": str(tmp_path), "url": "", "groups": [], "login": False}
    rules: dict[str, list[str]] = {"groups": [], "refused_groups": [], "refused_users": [], "admin_groups": []}
    with stand_in.portal(tmp_path, monitor.free_port(), {}, {}, rules=rules, pages=[page], python=str(python)) as url:
        assert url
