# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role image on each operating system: packages, pins, and refused settings. No task runs."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml

from .conftest import LOCAL, Evaluate

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
BASE: dict[str, Any] = {
    "os": "x-1",
    "hpc_image": False,
    "versions": {},
    "present": [],
    "gpus": 0,
    "container": False,
    "booted": True,
}


def host(distribution: str, version: str, base: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    """A host with its facts, the recorded state of its image, and variables of a user."""
    return {
        "found": {
            "os_family": "RedHat" if distribution == "AlmaLinux" else "Debian",
            "distribution": distribution,
            "distribution_version": version,
            "distribution_major_version": version.split(".")[0],
            "architecture": variables.pop("architecture", "x86_64"),
            "kernel": "6.8.0-azure",
            "pkg_mgr": "dnf" if distribution == "AlmaLinux" else "apt",
        },
        "__image_set": {"base": {**BASE, **(base or {})}, "left_alone": [], "remarks": []},
        **variables,
    }


GPUS = {"gpus": 8}
HOSTS: dict[str, dict[str, Any]] = {
    "jammy": host("Ubuntu", "22.04", GPUS, image_rdma="doca"),
    "noble": host("Ubuntu", "24.04", GPUS, image_rdma="doca"),
    "alma": host("AlmaLinux", "9.4", GPUS, image_rdma="doca"),
    "debian": host("Debian", "12.8", GPUS),
    "plain": host("Debian", "12.8"),
    "hpc": host("Ubuntu", "22.04", {**GPUS, "present": ["driver", "fabricmanager", "dcgm", "rdma"]}, image_rdma="doca"),
    "arm": host("Ubuntu", "24.04", GPUS, architecture="aarch64"),
    "rest": host("Ubuntu", "22.04", {"booted": False}, image_gpu=True),
    "off": host("Ubuntu", "22.04", GPUS, image_gpu=False, image_parts={"packages": False, "time": None}),
    "text": host("Ubuntu", "22.04", GPUS, image_gpu="false", image_updates=False),
    "container": host("Debian", "12.8", {"container": True, "booted": False}),
    "own": host(
        "Ubuntu",
        "22.04",
        GPUS,
        image_components={
            "driver": {"url": "https://mirror/x.run"},
            "fabricmanager": None,
            "dcgm": {"url": "https://m/d.deb"},
        },
        image_sysctl={"vm.zone_reclaim_mode": None, "vm.swappiness": 1},
        image_modules={"ib_umad": False, "ib_ipoib": True},
    ),
}
FOUND = HOSTS["plain"]["found"]
ASKED = (
    "packages",
    "lacking",
    "builds_with",
    "unknown",
    "problems",
    "pins",
    "settings",
    "digests",
    "fact",
)


@pytest.fixture(scope="module")
def resolved(evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """The role's internal variables by host."""
    inventory = {"all": {"hosts": HOSTS, "vars": LOCAL}}
    asked = {name: f"{{{{ __image_{name} }}}}" for name in ASKED}
    return evaluate("hpcai.azure.image", inventory, asked, ansible_facts="{{ found }}")


@pytest.mark.parametrize("name", ["jammy", "noble", "alma"])
def test_each_known_system_has_complete_pins_of_one_driver_version(
    resolved: dict[str, dict[str, Any]], name: str
) -> None:
    here = resolved[name]
    assert (here["lacking"], here["unknown"], here["problems"]) == (["driver", "fabricmanager", "rdma"], ["dcgm"], [])
    for component in here["lacking"]:
        pin = here["pins"][component]
        assert pin["name"]
        assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
        assert re.fullmatch(r"https://(us\.download|developer\.download)?[\w.]+/[\w./-]+\.(run|deb|rpm)", pin["url"])
        assert pin["version"].partition("-")[0] in pin["url"]
    assert here["pins"]["fabricmanager"]["version"].startswith(here["pins"]["driver"]["version"])
    assert here["pins"]["fabricmanager"]["url"].endswith(".rpm" if name == "alma" else ".deb")


def test_packages_have_the_names_of_their_system(resolved: dict[str, dict[str, Any]]) -> None:
    assert {"mdadm", "xfsprogs", "nvme-cli", "chrony", "rdma-core", "ibverbs-utils"} <= set(
        resolved["plain"]["packages"]
    )
    assert "libibverbs-utils" not in resolved["alma"]["packages"]  # DOCA includes it.
    assert "linux-headers-6.8.0-azure" in resolved["jammy"]["pins"]["driver"]["builds_with"]
    assert resolved["alma"]["builds_with"] == ["dkms", "gcc", "make", "kernel-devel-6.8.0-azure"]
    assert (resolved["plain"]["builds_with"], resolved["hpc"]["builds_with"]) == ([], [])


def test_a_container_gets_no_chrony(resolved: dict[str, dict[str, Any]]) -> None:
    assert "chrony" not in resolved["container"]["packages"]
    assert "mdadm" in resolved["container"]["packages"]


@pytest.mark.parametrize("name", ["plain", "hpc", "off", "text"])
def test_nothing_is_downloaded_without_gpus_or_on_an_hpc_image(resolved: dict[str, dict[str, Any]], name: str) -> None:
    assert (resolved[name]["lacking"], resolved[name]["problems"]) == ([], [])


@pytest.mark.parametrize("name", ["debian", "arm"])
def test_a_driver_without_a_pin_is_refused(resolved: dict[str, dict[str, Any]], name: str) -> None:
    [problem] = resolved[name]["problems"]
    assert "set image_components.driver to version, url and sha256" in problem


def test_the_drivers_installer_requires_a_running_machine(resolved: dict[str, dict[str, Any]]) -> None:
    [problem] = resolved["rest"]["problems"]
    assert "on a running machine only" in problem


def test_pins_and_values_of_the_user_override_those_of_the_role(resolved: dict[str, dict[str, Any]]) -> None:
    own = resolved["own"]
    assert own["pins"]["driver"]["url"] == "https://mirror/x.run"
    assert own["pins"]["driver"]["sha256"] == resolved["jammy"]["pins"]["driver"]["sha256"]
    assert own["lacking"] == ["driver", "dcgm"]
    [problem] = own["problems"]
    assert "set image_components.dcgm" in problem
    assert own["settings"]["sysctl"]["vm.zone_reclaim_mode"] is None
    assert own["settings"]["insist"] == ["vm.swappiness", "vm.zone_reclaim_mode"]
    assert own["settings"]["modules"] == ["ib_ipoib", "ib_uverbs", "rdma_ucm"]


def test_disabled_parts_install_and_change_nothing(resolved: dict[str, dict[str, Any]]) -> None:
    assert resolved["off"]["packages"] == []
    assert resolved["off"]["settings"]["time"] == "leave"
    assert resolved["plain"]["settings"]["time"] == "auto"


def test_off_without_quotes_disables_a_part(resolved: dict[str, dict[str, Any]]) -> None:
    assert resolved["text"]["settings"] == resolved["plain"]["settings"]
    assert resolved["plain"]["settings"]["updates"] == "off"


def test_different_settings_have_different_digests(resolved: dict[str, dict[str, Any]]) -> None:
    plain, own, off = (resolved[name]["digests"] for name in ("plain", "own", "off"))
    assert plain == resolved["container"]["digests"]
    assert {name for name in plain if plain[name] != own[name]} == {"settings", "components"}
    assert {name for name in plain if plain[name] != off[name]} == {"packages", "settings", "components"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in plain.values())


def test_the_fact_names_the_collections_version(resolved: dict[str, dict[str, Any]]) -> None:
    galaxy = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text(encoding="utf-8"))
    fact = resolved["jammy"]["fact"]
    assert fact["version"] == galaxy["version"]
    assert fact["components"] == {"driver": "580.126.16", "fabricmanager": "580.126.16-1", "rdma": "3.2.1"}
    assert resolved["plain"]["fact"]["components"] == {}
