# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of the links in the documentation site."""

from __future__ import annotations

import pathlib
import tarfile

import docs_links
import pytest

GOOD = '<a href="sub/b.html#here">b</a> <a href="#top" id="top">t</a><a href="https://x.org/">x</a><img src="p.svg">'


def archive(tmp_path: pathlib.Path, index: str) -> str:
    """A site with an index, another page and a picture, packed."""
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    (site / "index.html").write_text(index, encoding="utf-8")
    (site / "sub/b.html").write_text('<p id="here"><a href="../index.html">i</a>', encoding="utf-8")
    (site / "p.svg").write_text("<svg/>", encoding="utf-8")
    with tarfile.open(tmp_path / "docs.tar.gz", "w:gz") as packed:
        packed.add(site, "hpcai-azure-docs")
    return str(tmp_path / "docs.tar.gz")


def test_a_good_site_has_no_broken_links(tmp_path: pathlib.Path) -> None:
    assert docs_links.main(archive(tmp_path, GOOD)) == 0


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="gone.html">', "gone.html: no such file"),
        ('<img src="/p.svg">', "/p.svg: is absolute"),
        ('<a href="sub/b.html#there">', "sub/b.html#there: no such place on the page"),
        ('<a href="../../outside.html">', "../../outside.html: no such file"),
    ],
)
def test_a_broken_link_is_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], link: str, problem: str
) -> None:
    assert docs_links.main(archive(tmp_path, GOOD + link)) == 1
    assert f"docs_links.py: hpcai-azure-docs/index.html: {problem}\n" in capsys.readouterr().err


def test_an_archive_without_pages_is_an_error(tmp_path: pathlib.Path) -> None:
    with tarfile.open(tmp_path / "docs.tar.gz", "w:gz"):
        pass
    assert docs_links.main(str(tmp_path / "docs.tar.gz")) == 1
