# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tokens with which Slurm-web's agent reads Slurm. tests/contract/portal/test_slurm_web.py runs Slurm-web."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hpcai_portal.slurm_web import LIFESPAN_S, RETRY_S, SCONTROL, NoToken, Tokens, new_token


class Slurm:
    """Creates tokens, and has a clock."""

    def __init__(self) -> None:
        self.now, self.created, self.away = 1000.0, 0, False
        self.tokens = Tokens("web", self.create, lambda: self.now)

    def create(self) -> str:
        """A new token."""
        self.created += 1
        if self.away:
            raise NoToken("the controller does not answer")
        return f"token-{self.created}"

    def token(self) -> str:
        """The token of a request."""
        headers = self.tokens.headers()
        assert headers.pop("X-SLURM-USER-NAME") == "web"
        return headers["X-SLURM-USER-TOKEN"]


def test_a_token_is_used_for_half_of_its_life() -> None:
    slurm = Slurm()
    assert [slurm.token(), slurm.token()] == ["token-1", "token-1"]
    slurm.now += LIFESPAN_S / 2 - 1
    assert slurm.token() == "token-1"
    slurm.now += 1
    assert slurm.token() == "token-2"


def test_a_controller_that_is_away_is_asked_every_ten_seconds() -> None:
    slurm = Slurm()
    slurm.away = True
    for _request in range(3):
        with pytest.raises(NoToken, match="does not answer"):
            slurm.token()
    assert slurm.created == 1
    slurm.now += RETRY_S
    slurm.away = False
    assert slurm.token() == "token-2"


def test_an_old_token_is_not_used_after_a_failure() -> None:
    slurm = Slurm()
    assert slurm.token() == "token-1"
    slurm.now += LIFESPAN_S
    slurm.away = True
    with pytest.raises(NoToken):
        slurm.token()


def test_requests_at_the_same_time_create_one_token() -> None:
    slurm = Slurm()
    threads = [threading.Thread(target=slurm.token) for _request in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slurm.created == 1


def scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Let the commands find this scontrol."""
    program = folder / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\n{does}\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_user_of_the_process_creates_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(tmp_path, monkeypatch, "echo SLURM_JWT=aB.c-d.e_f")
    assert new_token() == "aB.c-d.e_f"
    # Without a user name: only root and slurm may create tokens for others.
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "token lifespan=600\n"
    assert not [word for word in SCONTROL if "username" in word]


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("echo 'Protocol authentication error' >&2; exit 1", "Protocol authentication error"),
        ("exit 1", "its answer is not a token"),
        ("echo SLURM_JWT=a.b.c; exit 1", "its answer is not a token"),
        ("echo 'SLURM_JWT=a b'", "its answer is not a token"),
        ("printf 'SLURM_JWT=a\\nX-Other: b\\n'", "its answer is not a token"),
        ("echo SLURM_JWT=", "its answer is not a token"),
    ],
)
def test_anything_else_is_an_error(does: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol(tmp_path, monkeypatch, does)
    with pytest.raises(NoToken, match=message):
        new_token()


def test_without_scontrol_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoToken, match="scontrol created no token"):
        new_token()
