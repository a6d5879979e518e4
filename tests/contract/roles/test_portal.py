# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables and files of the role portal. tests/cluster/test_portal.py runs it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from stand_ins.monitor import render

from hpcai_portal import config
from hpcai_portal.users import Rules

from .conftest import LOCAL, Evaluate

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles/portal"
FACTS = {"hostname": "login", "pkg_mgr": "apt", "architecture": "x86_64", "ansible_local": {}}
SYSTEMS = {
    "login": ("Debian", "13", "Debian"),
    "jammy": ("Ubuntu", "22", "Debian"),
    "rocky": ("Rocky", "9", "RedHat"),
}


def rendered(name: str) -> str:
    """An expression for a template's text."""
    return f"{{{{ lookup('ansible.builtin.template', '{ROLE}/templates/{name}') }}}}"


EXPRESSIONS = {
    "functions": "{{ portal_functions }}",
    "host": "{{ portal_host }}",
    "address": "{{ portal_address }}",
    "packages": "{{ __portal_packages }}",
    "python": "{{ __portal_python }}",
    "shadow": "{{ __portal_shadow }}",
    "settings": "{{ __portal_settings }}",
    "sources": "{{ __portal_sources }}",
    **{
        name: rendered(f"{name}.j2")
        for name in ("sudoers", "pam", "portal.nft", "hpcai-portal.service", "hpcai-portal-proxy.service", "notebook")
    },
    "python_changed": "{{ __portal_python_changed }}",
    "lacking": "{{ __portal_lacking }}",
    "restd": "{{ portal_slurm_web_restd }}",
    "slurm_web_users": "{{ __portal_slurm_web_user_hosts }}",
    "slurm_web_sources": "{{ __portal_slurm_web_sources.problems }}",
    **{
        name: rendered(f"{name}.j2")
        for name in ("hpcai-slurm-agent.service", "hpcai-slurm-web.service", "slurm-web-agent.ini")
    },
}


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """The values by host."""
    hosts: dict[str, dict[str, Any]] = {
        name: {
            "azure_private_ipv4": "10.0.0.5",
            "ansible_user": "azureuser",
            "facts": {
                **FACTS,
                "distribution": distribution,
                "distribution_major_version": version,
                "os_family": family,
            },
        }
        for name, (distribution, version, family) in SYSTEMS.items()
    }
    hosts["openid"] = {
        **hosts["login"],
        "portal_host": "openid",
        "portal_openid": {"client_id": "c", "domain": "example.org"},
        "portal_pages": [{"name": "news", "path": "/x"}],
        "portal_operators": ["ops"],
        "health_checks_goodput": {"days": 7},
        "portal_monitoring_url": "http://10.0.0.4:9090/services/monitoring",
        "portal_monitoring_password": "secret",
        "portal_files": "/nowhere",
        "portal_refused_groups": ["linux admins"],
        "portal_announcement": "Maintenance on Friday",
        "portal_partitions": ["gpu"],
    }
    for name, known in {"old": {}, "other": {"python": "python3.10"}, "jammy13": {"system": "Ubuntu-22"}}.items():
        facts = {**hosts["login"]["facts"], "ansible_local": {"hpcai_portal": {"python": "python3", **known}}}
        hosts[name] = {**hosts["login"], "portal_host": name, "portal_address": "fd00::5", "facts": facts}
    hosts["web"] = {
        **hosts["login"],
        "portal_host": "web",
        "portal_slurm_web_files": "/nowhere",
        "portal_slurm_web_groups": ["ops"],
        "slurm_restd": True,
        "slurm_restd_port": 6820,
        "slurm_accounting_host": "dbd",
        "hpcai_cluster_name": "blue",
    }
    hosts["socket"] = {**hosts["web"], "portal_host": "ctl", "slurm_restd_port": 0}
    hosts["v6"] = {**hosts["web"], "slurm_controller_address": "fd00::4"}
    hosts["no_port"] = {**hosts["web"], "slurm_restd_port": 0}
    hosts["no_restd"] = {**hosts["web"], "slurm_restd": False}
    hosts["dbd"] = hosts["login"]
    hosts["compute"] = {**hosts["login"], "azure_private_ipv4": "10.0.0.6"}
    children = {
        "hpcai_controller": {"hosts": {"ctl": {**hosts["login"], "azure_private_ipv4": "10.0.0.4"}}},
        "hpcai_login": {"hosts": {name: hosts[name] for name in hosts if name != "compute"}},
        "hpcai_compute": {"hosts": {"compute": hosts["compute"]}},
    }
    inventory = {"all": {"vars": LOCAL, "children": children}}
    return evaluate("hpcai.azure.portal", inventory, EXPRESSIONS, ansible_facts="{{ facts }}")


def test_the_first_login_node_runs_the_hub_and_compute_nodes_run_notebooks(by_host: dict[str, dict[str, Any]]) -> None:
    shown = ("ctl", "login", "jammy", "rocky", "openid", "compute")
    assert {host: by_host[host]["functions"] for host in shown} == {
        "ctl": [],
        "login": ["hub"],
        "jammy": [],
        "rocky": [],
        "openid": ["hub"],
        "compute": ["notebooks"],
    }
    assert by_host["compute"]["address"] == "10.0.0.5"


def test_nodes_get_all_files_of_the_portals_programs() -> None:
    tasks = yaml.safe_load((ROLE / "tasks/programs.yml").read_text(encoding="utf-8"))
    (copied,) = [task["loop"] for task in tasks if task["name"] == "Copy the portal's programs"]
    assert copied == sorted(path.name for path in (ROLE / "files/hpcai_portal").glob("*.py"))


def test_the_hub_gets_the_announcement_and_the_offered_partitions(by_host: dict[str, dict[str, Any]]) -> None:
    for host, announcement, partitions in (("login", "", []), ("openid", "Maintenance on Friday", ["gpu"])):
        settings = by_host[host]["settings"]
        assert (settings["announcement"], settings["notebooks"]["partitions"]) == (announcement, partitions)


def test_packages_and_python_depend_on_the_operating_system(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["login"]["packages"] == ["python3-venv", "nodejs", "openssl", "sudo", "npm"]
    assert by_host["compute"]["packages"] == ["python3-venv", "nftables"]
    # With given files, npm is not needed.
    assert "npm" not in by_host["openid"]["packages"]
    assert [by_host[host]["python"] for host in ("login", "jammy", "rocky")] == ["python3", "python3.11", "python3.12"]


def test_the_environment_is_made_again_for_another_python(by_host: dict[str, dict[str, Any]]) -> None:
    changed = {host: by_host[host]["python_changed"] for host in ("login", "old", "other", "jammy13")}
    assert changed == {"login": False, "old": False, "other": True, "jammy13": True}
    assert by_host["jammy13"]["lacking"] is True
    names = [task["name"] for task in yaml.safe_load((ROLE / "tasks/install.yml").read_text(encoding="utf-8"))]
    assert names.index("Create the Python environment") == names.index("Remove the environment of another Python") + 1


def test_daemons_restart_for_another_jupyterhub_or_proxy() -> None:
    tasks = yaml.safe_load((ROLE / "tasks/hub.yml").read_text(encoding="utf-8"))
    daemons = [task["hpcai.azure.daemon"] for task in tasks if "hpcai.azure.daemon" in task]
    assert [one["name"] for one in daemons] == ["hpcai-portal-proxy", "hpcai-portal"]
    for one in daemons:
        assert "/etc/ansible/facts.d/hpcai_portal.fact" in one["files"]
        assert "__portal_lacking" in one["pending"]


def test_an_ipv6_address_has_brackets_in_urls(by_host: dict[str, dict[str, Any]]) -> None:
    assert "--default-target http://[fd00::5]:289 " in by_host["old"]["hpcai-portal-proxy.service"]
    assert by_host["old"]["settings"]["address"] == "[fd00::5]"
    assert "ip6 saddr fd00::5 accept" in by_host["old"]["portal.nft"]


def test_the_secret_of_openid_reaches_the_hub_as_it_is(evaluate: Evaluate) -> None:
    tasks = yaml.safe_load((ROLE / "tasks/hub.yml").read_text(encoding="utf-8"))
    (content,) = [task["ansible.builtin.copy"]["content"] for task in tasks if "secrets.env" in str(task)]
    inventory = {"all": {"vars": {**LOCAL, "portal_openid_secret": 'a\\b "x ' + "'$y' "}, "hosts": {"login": {}}}}
    (found,) = evaluate("hpcai.azure.portal", inventory, {"env": content}, ansible_facts=FACTS).values()
    # As systemd's EnvironmentFile= reads double quotes.
    assert found["env"].splitlines()[0] == r'''PORTAL_OPENID_SECRET="a\\b \"x '$y' "'''


def test_the_hub_reads_shadow_only_if_it_checks_passwords_there(by_host: dict[str, dict[str, Any]]) -> None:
    assert [by_host[host]["shadow"] for host in ("login", "openid", "rocky")] == ["shadow", "", ""]
    assert "@include common-auth" in by_host["login"]["pam"]
    assert "auth include password-auth" in by_host["rocky"]["pam"]


def test_the_hub_acts_as_no_administrator(by_host: dict[str, dict[str, Any]]) -> None:
    rule = by_host["login"]["sudoers"].splitlines()[-1]
    assert re.fullmatch(r"hpcai-portal ALL = \(ALL, (.+)\) NOPASSWD: (.+)", rule)
    for excluded in ("!root", "!#0", "!slurm", "!munge", "!hpcai-slurm-web", "!azureuser", "!%sudo", "!%wheel"):
        assert excluded in rule
    assert rule.endswith("NOPASSWD: /usr/bin/sbatch, /usr/bin/squeue, /usr/bin/scancel")
    # Only these variables pass, so the hub cannot set LD_PRELOAD or PATH of what sudo starts.
    assert 'env_reset, env_keep = "JUPYTERHUB_*"' in by_host["login"]["sudoers"]
    # A blank would end the name.
    assert r"!%linux\ admins" in by_host["openid"]["sudoers"]
    assert "SETENV" not in by_host["login"]["sudoers"]


@pytest.mark.skipif(not shutil.which("visudo"), reason="no visudo here")
def test_sudo_accepts_the_rule(by_host: dict[str, dict[str, Any]], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rule"
    file.write_text(by_host["login"]["sudoers"], encoding="utf-8")
    file.chmod(0o440)
    subprocess.run(["visudo", "-cf", str(file)], check=True, capture_output=True)


def test_only_the_hub_reaches_notebooks(by_host: dict[str, dict[str, Any]]) -> None:
    rules = [line.strip() for line in by_host["compute"]["portal.nft"].splitlines()]
    allowed = rules.index("tcp dport 21000-21999 ip saddr 10.0.0.5 accept")
    assert rules[allowed + 1] == "tcp dport 21000-21999 counter reject with tcp reset"


def test_the_rules_return_when_nftables_loads_its_own_again() -> None:
    unit = (ROLE / "templates/hpcai-portal-ports.service.j2").read_text(encoding="utf-8").splitlines()
    assert {"ReloadPropagatedFrom=nftables.service", "ExecReload=/usr/sbin/nft -f /etc/hpcai/portal.nft"} <= {*unit}


def test_units_run_as_their_users(by_host: dict[str, dict[str, Any]]) -> None:
    hub, proxy = (by_host["login"][f"{name}.service"].splitlines() for name in ("hpcai-portal", "hpcai-portal-proxy"))
    assert "User=hpcai-portal" in hub
    assert "User=hpcai-proxy" in proxy
    assert {"NoNewPrivileges=true", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"} <= {*proxy}
    # Users of the machine cannot take the ports of a service that restarts.
    settings = by_host["login"]["settings"]
    ports = [settings["hub_port"], settings["proxy_api_port"], settings["pages_port"] + 100]
    assert max(ports) < 1024
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in hub
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in proxy
    # No command line has a secret.
    assert not [line for line in hub + proxy if line.startswith("ExecStart") and "TOKEN" in line]
    assert by_host["compute"]["notebook"].startswith("#!/opt/hpcai/portal/venv/bin/python -I\n")


def test_the_hub_understands_the_settings(by_host: dict[str, dict[str, Any]]) -> None:
    settings = by_host["openid"]["settings"]
    rules: dict[str, Any] = {name: tuple(value) for name, value in settings["rules"].items()}
    assert Rules(**rules).refused_users == ("azureuser",)
    assert settings["openid"]["name_claim"] == "preferred_username"
    assert [(page["name"], page["groups"], page["login"]) for page in settings["pages"]] == [
        ("news", [], False),
        ("health", ["ops"], False),
        ("goodput", ["ops"], False),
        ("monitoring", ["ops"], True),
    ]
    assert "secret" not in str(settings)
    assert (by_host["login"]["settings"]["openid"], by_host["login"]["settings"]["pages"]) == ({}, [])

    class Root:
        def __getattr__(self, _name: str) -> Any:
            return type("Options", (), {})()

    for host in ("login", "openid"):
        config.apply(
            type("C", (Root,), {"JupyterHub": Root()})(),
            {**by_host[host]["settings"], "file": "portal.json"},
            {"CONFIGPROXY_AUTH_TOKEN": "x", "PORTAL_OPENID_SECRET": "x", "PORTAL_MONITORING_LOGIN": "x"},
        )


def test_slurm_web_asks_slurmrestd_at_its_socket_or_its_port(by_host: dict[str, dict[str, Any]]) -> None:
    # An empty value makes the role fail, and say why.
    assert {host: by_host[host]["restd"] for host in ("web", "socket", "v6", "no_port", "no_restd", "login")} == {
        "web": "http://10.0.0.4:6820",
        "socket": "unix:///run/slurmrestd/slurmrestd.socket",
        "v6": "http://[fd00::4]:6820",
        "no_port": "",
        "no_restd": "",
        "login": "",
    }
    assert "uri=http://10.0.0.4:6820\nauth=jwt\n" in by_host["web"]["slurm-web-agent.ini"]
    assert "cluster=blue\n" in by_host["web"]["slurm-web-agent.ini"]
    # No host but the controller has Slurm's key, and no setting names it.
    assert "jwt_hs256" not in str(by_host["web"])


def test_slurm_web_is_a_page_for_its_groups(by_host: dict[str, dict[str, Any]]) -> None:
    (page,) = by_host["web"]["settings"]["pages"]
    socket = "/run/hpcai-slurm-web/gateway.socket"
    assert page == {"name": "slurm", "slurm_web": socket, "groups": ["ops"], "path": "", "url": "", "login": False}
    assert by_host["login"]["settings"]["pages"] == []
    # The hub's pages reach the gateway through its group.
    assert "SupplementaryGroups=hpcai-slurm-web" in by_host["web"]["hpcai-portal.service"].splitlines()
    assert "SupplementaryGroups" not in by_host["login"]["hpcai-portal.service"]


def test_slurm_webs_user_exists_where_slurm_looks_it_up(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["web"]["slurm_web_users"] == ["web", "ctl", "dbd"]
    assert by_host["ctl"]["slurm_web_users"] == ["ctl"]


def test_slurm_web_runs_as_its_user_without_ports(by_host: dict[str, dict[str, Any]]) -> None:
    units = {name: by_host["web"][f"hpcai-slurm-{name}.service"].splitlines() for name in ("agent", "web")}
    for lines in units.values():
        assert {"User=hpcai-slurm-web", "NoNewPrivileges=true", "CapabilityBoundingSet=", "ProtectSystem=strict"} <= {
            *lines
        }
    # The gateway has no network at all, and the agent's folder is closed for the hub.
    assert {"RestrictAddressFamilies=AF_UNIX", "RuntimeDirectoryMode=0750"} <= {*units["web"]}
    assert {"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK", "RuntimeDirectoryMode=0700"} <= {
        *units["agent"]
    }


@pytest.mark.parametrize(
    ("shown", "accepted"),
    [
        ("slurm 24.05.0", True),
        ("slurm 24.11.5", True),
        ("slurm 25.05.0-0rc1", True),
        ("slurm 23.11.10", False),
        ("slurm-wlm 22.05.8", False),
    ],
)
def test_slurm_web_needs_slurm_24_05(evaluate: Evaluate, shown: str, accepted: bool) -> None:
    tasks = yaml.safe_load((ROLE / "tasks/slurm_web.yml").read_text(encoding="utf-8"))
    (task,) = [one for one in tasks if one["name"] == "Refuse a Slurm that is too old for Slurm-web"]
    expressions = {
        "accepted": f"{{{{ {task['ansible.builtin.assert']['that']} }}}}",
        "asked": f"{{{{ {task['when']} }}}}",
        "message": task["ansible.builtin.assert"]["fail_msg"],
    }
    inventory = {"all": {"vars": LOCAL, "hosts": {"login": {}}}}
    given = {"ansible_facts": FACTS, "__portal_slurm_version": {"stdout": shown}}
    (found,) = evaluate("hpcai.azure.portal", inventory, expressions, **given).values()
    assert (found["asked"], found["accepted"]) == (True, accepted)
    assert f"login has {shown}" in found["message"]


def test_missing_archives_of_slurm_web_are_named(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["web"]["slurm_web_sources"] == [
        f"/nowhere (portal_slurm_web_files) has no {name}."
        for name in ("slurm-web-wheels.tar", "slurm-web-files.tar.gz")
    ]


def test_missing_archives_are_named(by_host: dict[str, dict[str, Any]]) -> None:
    problems = " ".join(by_host["openid"]["sources"]["problems"])
    assert "portal-wheels.tar" in problems
    assert "portal-proxy.tar.gz" in problems


def test_secrets_are_neither_logged_nor_compared() -> None:
    tasks = [
        task
        for file in ("hub.yml", "certificate.yml")
        for task in yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))
        if "ansible.builtin.copy" in task
        and re.search(r"\.env|tls\.key", str(task["ansible.builtin.copy"].get("dest", "")))
    ]
    web = yaml.safe_load((ROLE / "tasks/slurm_web.yml").read_text(encoding="utf-8"))
    tasks += [task for task in web if str(task.get("ansible.builtin.copy", {}).get("dest")).endswith(".key")]
    assert len(tasks) == 4
    for task in tasks:
        assert (task["no_log"], task["diff"]) == (True, False)
        assert task["ansible.builtin.copy"]["mode"] in ("0600", "0640")


def test_all_python_packages_are_pinned() -> None:
    for file, least, some in (
        ("requirements.txt", 100, {"jupyterhub", "batchspawner", "oauthenticator", "jupyterlab"}),
        ("slurm-web.txt", 30, {"Flask", "aiohttp", "requests", "RFL.web", "ClusterShell"}),
    ):
        lines = (ROLE / "files" / file).read_text(encoding="utf-8").splitlines()
        packages = [line for line in lines if not line.startswith("#")]
        assert len(packages) > least
        assert not [line for line in packages if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line)]
        assert some <= {line.split("==")[0] for line in packages}


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("http://127.0.0.1:9090", "http://127.0.0.1", ""),
        ("https://portal.example.org/services/monitoring/", "https://portal.example.org", "/services/monitoring"),
        ("http://[fd00::4]:9090/m", "http://[fd00::4]", "/m"),
    ],
)
def test_below_a_path_prometheus_moves_and_alertmanager_does_not(
    evaluate: Evaluate, tmp_path: pathlib.Path, url: str, origin: str, path: str
) -> None:
    # Prometheus sends alerts to Alertmanager, and scrapes itself.
    unit = render(evaluate, "hpcai-alertmanager.service.j2", tmp_path, monitoring_web_url=url)
    assert f"--web.external-url={origin}:9093 " in unit
    config = yaml.safe_load(render(evaluate, "prometheus.yml.j2", tmp_path, monitoring_web_url=url))
    (own,) = [job for job in config["scrape_configs"] if job["job_name"] == "prometheus"]
    assert own["metrics_path"] == f"{path}/metrics"
