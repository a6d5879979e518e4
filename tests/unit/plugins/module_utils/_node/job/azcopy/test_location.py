# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locations of blobs, and names that azcopy can transfer: what is refused, and that secrets are never displayed."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.location import (
    LocationError,
    NameRefused,
    check_names,
    parse_location,
    redacted,
    trouble_with,
)

SAS = "sv=2021&sp=rl&sig=Top%2BSecret%3D"


@pytest.mark.parametrize(
    ("url", "prefix", "address"),
    [
        ("https://a.blob.core.windows.net/data", "", "https://a.blob.core.windows.net/data"),
        ("https://a.blob.core.windows.net/data/", "x y", "https://a.blob.core.windows.net/data/x%20y/"),
        (
            "https://a.blob.core.windows.net/data/one/two",
            "three",
            "https://a.blob.core.windows.net/data/one/two/three/",
        ),
        ("http://127.0.0.1:10000/acc/data/f", "", "http://127.0.0.1:10000/acc/data/f/"),
    ],
)
def test_a_location_is_a_container_and_a_folder(url: str, prefix: str, address: str) -> None:
    assert parse_location(url, prefix).address == address


@pytest.mark.parametrize(
    "url",
    [
        "https://a.blob.core.windows.net",
        "https://a.blob.core.windows.net/UPPER",
        "http://a.blob.core.windows.net/data",
        "http://127.0.0.1:10000/acc",
        "ftp://a/data",
        "data",
        "https://a.blob.core.windows.net/data/../x",
        "https://user:word@a.blob.core.windows.net/data",
    ],
)
def test_an_invalid_location_is_refused(url: str) -> None:
    with pytest.raises(LocationError):
        parse_location(url)


def test_a_sas_in_a_url_is_refused_and_not_repeated_in_the_error() -> None:
    with pytest.raises(LocationError, match="a URL must not contain a SAS") as refused:
        parse_location(f"https://a.blob.core.windows.net/data?{SAS}")
    assert "Secret" not in str(refused.value)


def test_signatures_are_redacted() -> None:
    assert redacted(f"GET https://a/b?{SAS}&x=1 'sig=abc'") == (
        "GET https://a/b?sv=2021&sp=rl&sig=-REDACTED-&x=1 'sig=-REDACTED-'"
    )


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "with space",
        " lead",
        "trail ",
        "per%20cent",
        "%",
        "semi;colon",
        "#?&+*[x]",
        "ünï/日本",
        'quo"te',
        "tab\tx",
        "{x}",
    ],
)
def test_names_that_azcopy_can_transfer_are_accepted(name: str) -> None:
    # azcopy 10.32.2 uploaded and downloaded each of them.
    check_names([name])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("two\nlines", "newline"),
        ("cr\r", "newline"),
        ("nul\0", "NUL"),
        ("back\\slash", "backslash"),
        ("", "empty part"),
        ("/a", "empty part"),
        ("a//b", "empty part"),
        ("a/../b", "'.' or '..'"),
        ("\udcff", "not valid UTF-8"),
        ("\ufeffx", "old format"),
        ('{ "Files": [', "old format"),
        ("x" * 230, "too long"),
        ("/".join(["x" * 100] * 11), "too long"),
    ],
)
def test_names_that_azcopy_cannot_transfer_are_refused(name: str, why: str) -> None:
    assert why in trouble_with(name)
    with pytest.raises(NameRefused, match="rename"):
        check_names(["good", name])
