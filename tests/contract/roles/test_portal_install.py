# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal's defaults: programs from PyPI and npm, and a self-signed certificate.

tests/cluster/test_portal.py gives the role archives and a certificate, so these tasks run here, with stand-ins for
Python and npm, and the real openssl.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from .conftest import LOCAL

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles/portal"
# "python -m venv FOLDER" makes a folder with this program; all other commands are only recorded.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> '{log}'
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    touch "$3/bin/pip"
fi
"""


# Knows the names in NAMES.
GETENT = """#!/bin/sh
[ "$1 $2" = "--service=dns ahosts" ] || exit 1
case " $NAMES " in *" $3 "*) echo "10.0.0.5 STREAM $3" ;; *) exit 2 ;; esac
"""
DOMAIN = "portal.example.org"


def try_tasks(folder: pathlib.Path, file: str, *names: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run these tasks of a file of the role on this machine."""
    tasks = yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))
    chosen = [task for task in tasks if task["name"] in names]
    assert [task["name"] for task in chosen] == [*names]
    files = [str(ROLE / path) for path in ("defaults/main.yml", "vars/main/main.yml")]
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "vars_files": files, "tasks": chosen}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", str(folder / "play.yml"), "-e", json.dumps({**LOCAL, **variables})],
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def run_tasks(folder: pathlib.Path, file: str, *names: str, **variables: Any) -> str:
    """Run these tasks, which must succeed, and return the recap."""
    run = try_tasks(folder, file, *names, **variables)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()[-2]


@pytest.mark.parametrize("archives", ["", "/srv/archives"])
def test_programs_come_from_pypi_and_npm_unless_archives_are_given(tmp_path: pathlib.Path, archives: str) -> None:
    log, folder = tmp_path / "log", tmp_path / "portal"
    (tmp_path / "bin").mkdir()
    for name in ("python3", "npm"):
        (tmp_path / "bin" / name).write_text(STAND_IN.format(log=log), encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    names = ["Create the Python environment", "Install JupyterHub, JupyterLab and batchspawner", "Install the proxy"]
    run_tasks(
        tmp_path,
        "install.yml",
        *names,
        __portal_folder=str(folder),
        portal_python="python3",
        portal_functions=["hub"],
        portal_files=archives,
    )
    pip = f"python -m pip install --disable-pip-version-check --quiet --requirement {folder}/requirements.txt"
    npm = f"npm install --prefix={folder}/proxy --ignore-scripts --no-audit --no-fund "
    asked = log.read_text(encoding="utf-8").splitlines()
    assert asked[0] == f"python3 -m venv {folder}/venv"
    if archives:
        assert asked[1:] == [f"{pip} --no-index --find-links {folder}/wheels"]
    else:
        assert asked[1] == pip
        (packages,) = [line.removeprefix(npm) for line in asked[2:]]
        # No range, and no "latest". Newer releases of diagnostics do not run on Node.js 12.
        assert packages == "configurable-http-proxy@4.6.3 @dabh/diagnostics@2.0.3"


@pytest.mark.skipif(not pathlib.Path("/usr/bin/node").exists(), reason="the distribution's Node.js is not installed")
@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("console.log('4.6.3')", None),
        # What Node.js 12.22.9 says about @so-ric/colorspace 1.1.6, and newer ones about a wrong archive.
        ("this.a ??= = 1", "SyntaxError: Unexpected token '='"),
        (None, "Cannot find module"),
    ],
)
def test_a_proxy_that_does_not_run_is_refused_before_its_service_starts(
    tmp_path: pathlib.Path, program: str | None, problem: str | None
) -> None:
    place = tmp_path / "proxy/node_modules/configurable-http-proxy/bin"
    place.mkdir(parents=True)
    if program is not None:
        (place / "configurable-http-proxy").write_text(program, encoding="utf-8")
    names = ["Find out whether the proxy runs with this Node.js", "Refuse a proxy that does not run"]
    given = {"__portal_folder": str(tmp_path), "portal_functions": ["hub"]}
    if problem is None:
        assert "failed=0" in run_tasks(tmp_path, "install.yml", *names, **given)
        return
    with pytest.raises(AssertionError) as refused:
        run_tasks(tmp_path, "install.yml", *names, **given)
    assert "does not run with the machine's Node.js" in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("names", "common", "alternatives"),
    [
        ([], "login", ["DNS:login", "IP Address:10.0.0.5"]),
        (["portal.example.org", "p.example.org"], "portal.example.org",
         ["DNS:portal.example.org", "DNS:p.example.org", "IP Address:10.0.0.5"]),
    ],
)  # fmt: skip
def test_the_self_signed_certificate_is_for_the_portals_names_and_stays(
    tmp_path: pathlib.Path, names: list[str], common: str, alternatives: list[str]
) -> None:
    given: dict[str, Any] = {"__portal_settings_folder": str(tmp_path), "portal_address": "10.0.0.5"}
    given |= {"portal_names": names, "ansible_facts": {"hostname": "login"}}
    assert "changed=1" in run_tasks(tmp_path, "certificate.yml", "Create a self-signed certificate", **given)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def openssl(*words: str) -> str:
        return subprocess.run(["openssl", *words], check=True, capture_output=True, text=True, timeout=30).stdout

    shown = openssl("x509", "-in", str(certificate), "-noout", "-subject", "-ext", "subjectAltName")
    subject, _header, extension = shown.splitlines()
    assert subject.replace(" ", "") == f"subject=CN={common}"
    assert extension.strip().split(", ") == alternatives
    # In ten years less a day it is still valid.
    openssl("x509", "-in", str(certificate), "-noout", "-checkend", str(3649 * 24 * 3600))
    assert openssl("x509", "-in", str(certificate), "-noout", "-pubkey") == openssl("pkey", "-in", str(key), "-pubout")
    # Nobody else reads the key before the next task sets its group.
    assert key.stat().st_mode & 0o077 == 0
    before = certificate.read_bytes(), key.read_bytes()
    assert "changed=0" in run_tasks(tmp_path, "certificate.yml", "Create a self-signed certificate", **given)
    assert (certificate.read_bytes(), key.read_bytes()) == before


def certificate_of(folder: pathlib.Path, *names: str) -> bytes:
    """A self-signed certificate for these names, and its key, in the folder."""
    also = ",".join(f"DNS:{name}" for name in names)
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-addext"]
    made += [f"subjectAltName={also}", "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return (folder / "tls.crt").read_bytes()


def test_with_a_domain_the_self_signed_certificate_is_for_all_names_below_it(tmp_path: pathlib.Path) -> None:
    given: dict[str, Any] = {"__portal_settings_folder": str(tmp_path), "portal_address": "10.0.0.5"}
    given |= {"portal_domain": DOMAIN, "ansible_facts": {"hostname": "login"}}
    names = [
        "Look for the portal's names in the self-signed certificate",
        "Remove a self-signed certificate without the portal's names",
        "Create a self-signed certificate",
    ]
    # One of an earlier run, before the domain was set.
    old = certificate_of(tmp_path, DOMAIN, "login")
    assert "changed=2" in run_tasks(tmp_path, "certificate.yml", *names, **given)
    new = (tmp_path / "tls.crt").read_bytes()
    assert new != old
    for name, found in ((DOMAIN, "does match"), (f"alice.{DOMAIN}", "does match"), ("login", "does NOT match")):
        check = ["openssl", "x509", "-noout", "-checkhost", name, "-in", str(tmp_path / "tls.crt")]
        assert found in subprocess.run(check, capture_output=True, text=True, check=False, timeout=30).stdout
    assert "changed=0" in run_tasks(tmp_path, "certificate.yml", *names, **given)
    assert (tmp_path / "tls.crt").read_bytes() == new


@pytest.mark.parametrize(
    ("names", "lacks"),
    [([DOMAIN, f"*.{DOMAIN}"], ""), ([DOMAIN], f"hpcai-notebook.{DOMAIN}"), ([f"*.{DOMAIN}"], DOMAIN)],
    ids=["both", "no wildcard", "wildcard only"],
)
def test_with_a_domain_a_certificate_without_its_names_is_refused(
    tmp_path: pathlib.Path, names: list[str], lacks: str
) -> None:
    certificate_of(tmp_path, *names)
    tasks = yaml.safe_load((ROLE / "tasks/certificate.yml").read_text(encoding="utf-8"))
    # Before anything changes.
    check = [task["name"] for task in tasks[:2]]
    given = {"portal_domain": DOMAIN, "portal_certificate": str(tmp_path / "tls.crt")}
    run = try_tasks(tmp_path, "certificate.yml", *check, **given)
    message = f"portal_certificate is not valid for {lacks}. With portal_domain, the certificate must be for {DOMAIN}"
    assert (message in run.stdout, run.returncode == 0) == (bool(lacks), not lacks), run.stdout


@pytest.mark.parametrize(
    ("known", "refused"),
    [([DOMAIN, f"hpcai-notebook.{DOMAIN}"], False), ([DOMAIN], True), ([], False)],
    ids=["wildcard", "no wildcard", "another server"],
)
def test_a_domain_without_a_wildcard_record_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, known: list[str], refused: bool
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/getent").write_text(GETENT, encoding="utf-8")
    (tmp_path / "bin/getent").chmod(0o755)
    monkeypatch.setenv("NAMES", " ".join(known))
    names = ["Look up the portal and a notebook in DNS", "Refuse a domain without a wildcard record"]
    run = try_tasks(tmp_path, "hub.yml", *names, portal_domain=DOMAIN)
    assert (run.returncode != 0, f"Add a wildcard record *.{DOMAIN}" in run.stdout) == (refused, refused), run.stdout


@pytest.mark.parametrize(
    ("functions", "stays"),
    [
        (["hub", "notebooks"], {"programs", "hub", "ports"}),
        (["notebooks"], {"programs", "ports"}),
        (["hub"], {"programs", "hub"}),
        ([], set()),
    ],
)
def test_a_host_loses_the_parts_of_functions_that_it_no_longer_has(
    tmp_path: pathlib.Path, functions: list[str], stays: set[str]
) -> None:
    """Another portal_host must not leave a hub that accepts logins and submits jobs."""
    names = ("programs", "hub", "notebooks")
    lists = {f"__portal_removed_{name}": [str(tmp_path / name.replace("notebooks", "ports"))] for name in names}
    for path in lists.values():
        pathlib.Path(path[0]).touch()
    files = [str(ROLE / f"vars/main/{name}.yml") for name in ("main", "uninstall")]
    tasks = yaml.safe_load((ROLE / "tasks/uninstall.yml").read_text(encoding="utf-8"))
    (remove,) = [task for task in tasks if task.get("loop") == "{{ __portal_removed }}"]
    (include,) = [
        task
        for task in yaml.safe_load((ROLE / "tasks/main.yml").read_text(encoding="utf-8"))
        if task.get("ansible.builtin.include_tasks") == "uninstall.yml"
    ]
    assert include["vars"] == {"__portal_keeps": "{{ portal_functions }}"}
    given = {**LOCAL, **lists, "__portal_keeps": functions}
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "vars_files": files, "tasks": [remove]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    run = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", str(tmp_path / "play.yml"), "-e", json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"play.yml"} == stays
