# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the report's page stand on: a browser for each file, and pages that it opens."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator

import pytest

from . import chromium
from .report_page import Pages, Show


@pytest.fixture(scope="module")
def opened() -> Iterator[chromium.Page]:
    """A browser for all tests of a file."""
    if chromium.find() is None:
        pytest.skip(f"no browser here ({', '.join(chromium.PROGRAMS)}): tests/setup/host.sh installs one")
    with chromium.browser() as one:
        one.send("Emulation.setTimezoneOverride", timezoneId="UTC")
        yield one


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The pages, by their number of nodes."""
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def show(opened: chromium.Page, files: Pages) -> Show:
    """Open the page in a state: the words after the # of its address."""

    def at(
        count: int = 12, scheme: str = "light", screen: tuple[int, int] = (1400, 900), **state: str
    ) -> chromium.Page:
        opened.events.clear()
        opened.open(f"{files[count].as_uri()}#{urllib.parse.urlencode(state)}", *screen, scheme=scheme)
        opened.wait("document.documentElement.dataset.painted")
        return opened

    return at
