# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmrestd at a Unix socket, with the API 0.0.42 of Slurm 24.11: what Slurm-web asks for, and nothing else.

It accepts one token, and answers only GET. The fields are those that Slurm-web reads (its conf/vendor/agent.yml).
"""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

VERSION = "0.0.42"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
_ALWAYS = {"meta": {"slurm": {"release": "24.11.5", "cluster": "hpcai"}}, "errors": [], "warnings": []}


def number(value: int) -> dict[str, Any]:
    """A number as slurmrestd writes it."""
    return {"set": True, "infinite": False, "number": value}


_GPUS = {"gres_detail": ["gpu:8(IDX:0-7)"], "tres_per_job": "", "tres_per_node": "gres/gpu:8"}
_NO_TRES = {"tres_per_socket": "", "tres_per_task": ""}
_CODE = {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(0), "name": ""}}
_TIME = {
    "elapsed": 60,
    "eligible": 1764201600,
    "end": 0,
    "limit": number(60),
    "planned": number(0),
    "start": 1764201600,
    "submission": 1764201600,
    "suspended": 0,
    **{name: {"seconds": 0, "microseconds": 0} for name in ("system", "total", "user")},
}


def queued(job: int, user: str, state: str, nodes: str) -> dict[str, Any]:
    """A job of slurmctld."""
    return {
        "account": "vision",
        "accrue_time": number(1764201600),
        "batch_flag": True,
        "command": "/data/train.sh",
        "cpus": number(96),
        "current_working_directory": "/data",
        "job_id": job,
        "job_state": [state],
        "last_sched_evaluation": number(1764201600),
        "node_count": number(1),
        "nodes": nodes,
        "partition": "gpu",
        "priority": number(1),
        "qos": "normal",
        "shared": [],
        "sockets_per_node": number(2),
        **{f"standard_{one}": "/dev/null" for one in ("input", "output", "error")},
        "state_reason": "None" if nodes else "Resources",
        "tasks": number(8),
        "tres_req_str": "cpu=96,node=1",
        "user_name": user,
        **_GPUS,
        **_NO_TRES,
    }


def accounted(job: int, user: str, state: str, nodes: str) -> dict[str, Any]:
    """A job of slurmdbd, with a name that a user has chosen."""
    tres = [{"type": "cpu", "name": "", "id": 1, "count": 96}, {"type": "node", "name": "", "id": 4, "count": 1}]
    return {
        "association": {"account": "vision", "cluster": "hpcai", "partition": "", "user": user, "id": 1},
        "comment": {"administrator": "", "job": HOSTILE, "system": ""},
        "derived_exit_code": _CODE,
        "exit_code": _CODE,
        "group": user,
        "job_id": job,
        "name": HOSTILE,
        "nodes": nodes,
        "partition": "gpu",
        "priority": number(1),
        "qos": "normal",
        "script": "",
        "state": {"current": [state], "reason": "None"},
        "steps": [],
        "submit_line": HOSTILE,
        "time": _TIME,
        "tres": {"allocated": tres, "requested": tres},
        "used_gres": "gpu:8",
        "user": user,
        "wckey": {"wckey": "", "flags": []},
        "working_directory": "/data",
    }


def node(name: str, state: str, used: str) -> dict[str, Any]:
    """A node with eight GPUs."""
    cpus = 96 if used else 0
    return {
        "name": name,
        "architecture": "x86_64",
        "operating_system": "Linux",
        "boot_time": number(1764201600),
        "last_busy": number(1764201600),
        "cpus": 96,
        "sockets": 2,
        "cores": 48,
        "threads": 1,
        "real_memory": 1900000,
        "gres": "gpu:8(S:0-1)",
        "gres_used": used,
        "state": [state],
        "reason": "",
        "partitions": ["gpu"],
        "alloc_cpus": cpus,
        "alloc_idle_cpus": 96 - cpus,
        "alloc_memory": 0,
    }


NODES = {
    "gpu-0": node("gpu-0", "ALLOCATED", "gpu:8(IDX:0-7)"),
    "gpu-1": node("gpu-1", "IDLE", ""),
}
JOBS = {4711: ("alice", "RUNNING", "gpu-0"), 4712: ("bob", "PENDING", "")}


def answer(path: str) -> dict[str, Any] | None:
    """The content of an answer, without what all answers have; None if there is no such path."""
    if not path.startswith((f"/slurm/v{VERSION}/", f"/slurmdb/v{VERSION}/")):
        return None
    top, _version, rest = path.removeprefix("/").split("/", 2)
    kind, _slash, name = rest.partition("/")
    if kind == "job":
        make = {"slurm": queued, "slurmdb": accounted}[top]
        return {"jobs": [make(int(name), *JOBS[int(name)])]} if name.isdigit() and int(name) in JOBS else None
    if kind == "node":
        return {"nodes": [NODES[name]]} if name in NODES else None
    fixed: dict[str, dict[str, Any]] = {
        "ping": {"pings": [{"hostname": "ctl", "pinged": "UP", "mode": "primary"}]},
        "jobs": {"jobs": [queued(job, *rest) for job, rest in JOBS.items()]},
        "nodes": {"nodes": list(NODES.values())},
        "partitions": {"partitions": [{"name": "gpu", "node_sets": ""}]},
        "reservations": {"reservations": []},
        "accounts": {"accounts": [{"name": "vision"}]},
        "associations": {"associations": []},
        "qos": {"qos": []},
    }
    return fixed.get(rest)


class Slurmrestd:
    """The server.

    :ivar token: the token that it accepts.
    :ivar asked: method, path and user of each request.
    """

    def __init__(self, path: Path) -> None:
        self.token = "a.valid.token"
        self.asked: list[tuple[str, str, str]] = []
        restd = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                restd.asked.append((self.command, self.path, self.headers.get("X-SLURM-USER-NAME", "")))
                found = answer(self.path)
                status = 401 if self.headers.get("X-SLURM-USER-TOKEN") != restd.token else 200 if found else 404
                body, kind = b"not found", "text/plain"
                if status != 404:
                    body, kind = json.dumps({**(found or {}), **_ALWAYS}).encode(), "application/json"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_DELETE = do_GET

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *_arguments: Any) -> None:
                """Log nothing."""

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Server(str(path), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
