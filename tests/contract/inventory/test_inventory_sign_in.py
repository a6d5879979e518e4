# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sign-in to Azure, and its errors."""

from __future__ import annotations

import pytest

from .reading import Source, failure


def test_a_wrong_token_fails_the_source_and_is_not_shown(source: Source) -> None:
    error = failure(source, token="secret-of-somebody")

    assert "Azure refused the token" in error
    assert "secret-of-somebody" not in error


@pytest.mark.parametrize("auth_source", ["cli", "environment", "managed_identity"])
def test_a_missing_identity_fails_the_source(
    source: Source, auth_source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    # Otherwise, the SDK uses an address of Azure that only times out here.
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:9")

    error = failure(source, auth_source=auth_source, timeout=20)

    assert f"could not sign in with auth_source {auth_source}" in error
    assert "`az login`" in error
    assert source.simulator.requests() == []
    assert capsys.readouterr().err == ""
