# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Credentials for azcopy: where they come from, which are refused, and that secrets are never displayed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import Credential, credential_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

SAS = "sv=2021&sp=rl&sig=Top%2BSecret%3D"


@pytest.fixture
def sas_file(tmp_path: Path) -> Path:
    """A file with a SAS."""
    path = tmp_path / "sas"
    path.write_text(f"?{SAS}\n", encoding="ascii")
    path.chmod(0o600)
    return path


def test_a_sas_from_a_file_or_the_environment_is_never_displayed(sas_file: Path) -> None:
    found = credential_of("sas", sas_file=str(sas_file))
    assert found.token == credential_of("sas", environment={"HPCAI_BLOB_SAS": SAS}).token
    assert found.sign("https://a/b") == f"https://a/b?{SAS}"
    assert "Secret" not in repr(found)
    assert "HPCAI_BLOB_SAS" not in found.variables({"HPCAI_BLOB_SAS": SAS})


def test_a_replaced_sas_is_used_unless_the_new_file_is_invalid(sas_file: Path) -> None:
    """A checkpoint watcher runs longer than a short-lived SAS is valid."""
    found = credential_of("sas", sas_file=str(sas_file))
    sas_file.write_text(f"{SAS}2", encoding="ascii")
    assert found.sign("https://a/b") == f"https://a/b?{SAS}2"
    for harm in (lambda: sas_file.write_text("half", encoding="ascii"), sas_file.unlink):
        harm()
        assert found.sign("https://a/b") == f"https://a/b?{SAS}"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_sas_file_that_others_may_read_is_refused(sas_file: Path, mode: int) -> None:
    sas_file.chmod(mode)
    with pytest.raises(ConfigError, match="accessible to other users"):
        credential_of("sas", sas_file=str(sas_file))


def test_a_sas_file_of_another_user_or_behind_a_link_is_refused(
    sas_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(sas_file)
    with pytest.raises(ConfigError, match="cannot be read"):
        credential_of("sas", sas_file=str(tmp_path / "link"))
    os.chown(sas_file, 65534, 65534) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(ConfigError, match="must be a regular file that you or root own"):
        credential_of("sas", sas_file=str(sas_file))


@pytest.mark.parametrize("text", ["", "sig=", "sv=1", f"https://a/b?{SAS}", f"{SAS}\nsecond", f"{SAS} x"])
def test_an_invalid_sas_is_refused_and_not_repeated_in_the_error(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        credential_of("sas", environment={"HPCAI_BLOB_SAS": text})
    assert "Secret" not in str(refused.value)


def test_azcopy_gets_only_the_variables_of_the_chosen_credential() -> None:
    given = {
        "PATH": "/bin",
        "AZCOPY_AUTO_LOGIN_TYPE": "SPN",
        "AZCOPY_SPA_CLIENT_SECRET": "x",
        "AZCOPY_MSI_CLIENT_ID": "y",
    }
    assert Credential("none").variables(given) == {"PATH": "/bin"}
    client = "01234567-89ab-cdef-0123-456789abcdef"
    assert credential_of("identity", client, uid=0).variables(given) == {
        "PATH": "/bin",
        "AZCOPY_AUTO_LOGIN_TYPE": "MSI",
        "AZCOPY_MSI_CLIENT_ID": client,
    }
    variables = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_FEDERATED_TOKEN_FILE": "/f"}
    assert credential_of("workload", environment=variables).variables(given)["AZCOPY_AUTO_LOGIN_TYPE"] == "WORKLOAD"
    with pytest.raises(ConfigError, match="needs AZURE_FEDERATED_TOKEN_FILE"):
        credential_of("workload", environment={"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t"})
    with pytest.raises(ConfigError, match="GUID"):
        credential_of("identity", "me")
