# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The MariaDB server of slurmdbd: its settings, its data folder, the database and its user.

The user logs in through the socket, as the operating system's user of the same name (plugin unix_socket). So there is
no password that could be read, logged or lost with the machine.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from ..machine import selinux
from ..machine.root import Root
from ..machine.run import CommandFailed, Run, must
from ..setup.managed_file import FileChange, change_of

_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# ProtectHome=true in mariadb.service hides these.
_HIDDEN = ("/home", "/root", "/run/user")
_LABEL = "mysqld_db_t"
# https://slurm.schedmd.com/accounting.html: 5 to 50 % of the memory, 4 GiB if possible, and a log of a quarter of that.
_POOL_MIB, _POOL_SHARE, _LEAST_POOL_MIB = 4096, 0.25, 128
_RECOMMENDED: Mapping[str, str] = {
    "innodb_lock_wait_timeout": "900",
    "max_allowed_packet": "16M",
    # loose: only 10.6.18, 10.11.8, 11.4.2 and later know it, and 11.6 changes it to a value that breaks slurmdbd.
    "loose_innodb_snapshot_isolation": "OFF",
    # slurmdbd is on this machine, and connects through the socket.
    "skip_networking": "ON",
}


class Refused(RuntimeError):
    """The change would lose data, or would not work; the message says what to do."""


@dataclass(frozen=True)
class DatabaseOptions:
    """The wanted database and its server.

    :ivar datadir: the server's data folder; empty for its default.
    :ivar settings: server settings that override the recommended ones; None removes one.
    """

    name: str
    user: str
    datadir: str
    settings_file: str
    settings: Mapping[str, str | None]


@dataclass(frozen=True)
class Server:
    """The state of the running server.

    :ivar datadir: its data folder; empty if the server does not run.
    :ivar has_database: the database exists.
    :ivar tables: how many tables it has.
    :ivar plugin: how the user logs in; empty if there is no such user.
    :ivar granted: the user has all privileges on the database.
    """

    datadir: str = ""
    has_database: bool = False
    tables: int = 0
    plugin: str = ""
    granted: bool = False


def check(options: DatabaseOptions) -> None:
    """Refuse invalid options.

    :raises Refused: a name or a path is invalid.
    """
    for what, name in (("name", options.name), ("user", options.user)):
        if not _NAME.fullmatch(name):
            raise Refused(f"{what} must be letters, digits and underscores, not {name!r}.")
    datadir = options.datadir
    if datadir and (not datadir.startswith("/") or os.path.normpath(datadir) != datadir):
        raise Refused(f"datadir must be an absolute path without '..', not {datadir!r}.")
    if datadir.startswith(tuple(f"{path}/" for path in _HIDDEN)):
        raise Refused(f"datadir {datadir} is hidden from mariadb.service (ProtectHome). Choose another folder.")


def settings_change(options: DatabaseOptions, root: Root) -> FileChange:
    """Return the change of the settings file."""
    settings: dict[str, str | None] = {**_sized(root), **_RECOMMENDED}
    if options.datadir:
        settings["datadir"] = options.datadir
    settings.update(options.settings)
    lines = [f"{name} = {value}" for name, value in settings.items() if value is not None]
    head = "# Written by the module hpcai.azure.slurm_database, which overwrites it.\n[mysqld]\n"
    return change_of(root.at(options.settings_file), head + "\n".join(lines) + "\n")


def _sized(root: Root) -> dict[str, str]:
    total = re.search(r"^MemTotal:\s+(\d+) kB", root.text("/proc/meminfo") or "", re.MULTILINE)
    memory = int(total[1]) // 1024 if total else 0
    # Rounded, because the memory of one machine differs slightly from boot to boot.
    pool = max(_LEAST_POOL_MIB, min(_POOL_MIB, int(memory * _POOL_SHARE)) // 128 * 128)
    return {"innodb_buffer_pool_size": f"{pool}M", "innodb_log_file_size": f"{pool // 4}M"}


def is_new_place(options: DatabaseOptions, root: Root) -> bool:
    """Whether the server's own tables must be created in the chosen folder first.

    :raises Refused: the folder contains something else.
    """
    if not options.datadir or root.exists(f"{options.datadir}/mysql"):
        return False
    strange = [name for name in root.entries(options.datadir) if name != "lost+found"]
    if strange:
        raise Refused(
            f"{options.datadir} is not a MariaDB data folder and is not empty ({', '.join(strange[:3])}). Empty it, or "
            "choose another folder."
        )
    return True


def read_server(options: DatabaseOptions, run: Run) -> Server:
    """Read the state of the server; empty if it does not run."""
    place = run(_sql("SELECT @@datadir"))
    if place.rc != 0:
        return Server()
    db, user = options.name, options.user
    answers = must(
        run(
            _sql(
                f"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='{db}';"
                f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='{db}';"
                f"SELECT COALESCE(MAX(plugin), '') FROM mysql.user WHERE user='{user}' AND host='localhost';"
                f"SELECT COUNT(*) FROM mysql.db WHERE user='{user}' AND host='localhost' AND db='{db}'"
                " AND insert_priv='Y' AND drop_priv='Y' AND alter_priv='Y'"
            )
        )
    ).stdout.split("\n")
    return Server(place.stdout.strip().rstrip("/"), answers[0] != "0", int(answers[1]), answers[2], answers[3] != "0")


def check_move(options: DatabaseOptions, server: Server) -> None:
    """Refuse to leave a database behind.

    :raises Refused: the server uses another data folder and has this database.
    """
    if options.datadir and server.datadir and server.datadir != options.datadir and server.tables:
        raise Refused(
            f"The database {options.name} is in {server.datadir}, and would be left behind. Dump it, "
            f"stop slurmdbd and mariadb, move {server.datadir} to {options.datadir}, and run this again."
        )


def plan_sql(options: DatabaseOptions, server: Server) -> tuple[str, ...]:
    """Return the statements that are missing. Pure."""
    account = f"'{options.user}'@'localhost'"
    statements = []
    if not server.has_database:
        statements.append(f"CREATE DATABASE `{options.name}`")
    if not server.plugin:
        statements.append(f"CREATE USER {account} IDENTIFIED VIA unix_socket")
    elif server.plugin != "unix_socket":
        statements.append(f"ALTER USER {account} IDENTIFIED VIA unix_socket")
    if not server.granted:
        statements.append(f"GRANT ALL ON `{options.name}`.* TO {account}")
    return tuple(statements)


def make_place(options: DatabaseOptions, root: Root, run: Run) -> None:
    """Create the server's own tables in the chosen folder.

    :raises CommandFailed: that failed; everything created was removed again.
    """
    folder = root.at(options.datadir)
    existed = os.path.isdir(folder)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    try:
        if root.is_this_machine:
            shutil.chown(folder, "mysql", "mysql")
        os.chmod(folder, 0o700)
        if selinux.is_enabled(root):
            label(options.datadir, run)
        must(
            run(
                [
                    "mariadb-install-db",
                    "--user=mysql",
                    f"--datadir={options.datadir}",
                    "--skip-test-db",
                    "--auth-root-authentication-method=socket",
                ]
            )
        )
    except BaseException:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name != "lost+found":
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if not existed:
            os.rmdir(folder)
        raise


def label(folder: str, run: Run) -> None:
    """Set the SELinux label with which the server may use a folder's content.

    :raises CommandFailed: the policy cannot be changed.
    """
    pattern = f"{folder}(/.*)?"
    if run(["semanage", "fcontext", "--add", "--type", _LABEL, pattern]).rc != 0:
        must(run(["semanage", "fcontext", "--modify", "--type", _LABEL, pattern]))
    must(run(["restorecon", "-R", folder]))


def apply_sql(statements: tuple[str, ...], run: Run) -> None:
    """Run the statements.

    :raises CommandFailed: the server refused.
    """
    for statement in statements:
        must(run(_sql(statement)))


def count_rows(database: str, cluster: str, run: Run) -> int | None:
    """Return how many jobs of a cluster the database has; None if there is no such table.

    :raises CommandFailed: the server does not answer.
    """
    table = f"{cluster}_job_table"
    if not _NAME.fullmatch(database) or not re.fullmatch(r"[A-Za-z0-9_.-]+", table):
        raise CommandFailed(f"{database}.{table} is not a valid name of a Slurm table")
    known = f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='{database}' AND table_name='{table}'"
    if must(run(_sql(known))).stdout.strip() == "0":
        return None
    return int(must(run(_sql(f"SELECT COUNT(*) FROM `{database}`.`{table}`"))).stdout.strip())


def _sql(statement: str) -> list[str]:
    return ["mariadb", "--batch", "--skip-column-names", f"--execute={statement}"]
