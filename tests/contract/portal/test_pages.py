# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a page's server is asked, with the hub's packages, and without a hub. test_openid_logins.py has a browser."""

from __future__ import annotations

import pathlib

from stand_ins import portal as stand_in

FORWARDED = """
import asyncio, json, types
from hpcai_portal import pages

def asked(path):
    found = []
    async def forward(client, url, headers, hidden):
        found.append(url)
    made = pages.Forwarded.__new__(pages.Forwarded)
    made.initialize(url="http://srv/news/", prefix="/services/news/")
    made.forward, made._current_user = forward, "alice"
    made.request = types.SimpleNamespace(path="/services/news/" + path, query="q=1")
    async def main():
        try:
            await pages.Forwarded.get.__wrapped__(made, "decoded")
        except pages.web.HTTPError as error:
            return error.status_code
        return found[0]
    return asyncio.run(main())

print(json.dumps([asked(path) for path in ("a%20b%3Fc/d", "..%2fops/x", "../ops", "a/%2e%2E", "x%5c..%5cops", "a..b")]))
"""


def test_a_request_stays_below_the_servers_url_and_keeps_its_encoding() -> None:
    assert stand_in.in_hub(FORWARDED) == [
        "http://srv/news/a%20b%3Fc/d?q=1",
        400,
        400,
        400,
        400,
        "http://srv/news/a..b?q=1",
    ]


def test_a_link_that_takes_the_place_of_a_file_is_not_followed(tmp_path: pathlib.Path) -> None:
    """Users may be able to write in a page's folder, and the hub's secrets are files of the same user."""
    program = """
import json, pathlib, sys
from hpcai_portal import pages

top = pathlib.Path(json.loads(sys.argv[1])["top"]).resolve()
(top / "site/inner").mkdir(parents=True)
(top / "secret").mkdir()
for name in ("site/index.html", "site/inner/a", "secret/a"):
    (top / name).write_text(name)
(top / "site/link").symlink_to("index.html")
(top / "site/out").symlink_to("../secret/a")

def read(path):
    found = pages.file_of(top / "site", path)
    return pages.content_of(found).decode() if found else None

shown = [read(path) for path in ("", "link", "inner/a", "out", "../secret/a")]
file, inner = (pages.file_of(top / "site", path) for path in ("", "inner/a"))
file.unlink()
file.symlink_to(top / "secret/a")
(top / "site/inner").rename(top / "site/away")
(top / "site/inner").symlink_to(top / "secret")
for one in (file, inner):
    try:
        shown.append(pages.content_of(one).decode())
    except OSError as error:
        shown.append("refused")
print(json.dumps(shown))
"""
    expected = ["site/index.html", "site/index.html", "site/inner/a", None, None, "refused", "refused"]
    assert stand_in.in_hub(program, top=str(tmp_path)) == expected
