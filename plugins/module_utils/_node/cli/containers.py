# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode containers: registry passwords, the importer for pyxis, and a check that containers work."""

from __future__ import annotations

import argparse
import functools
import os

from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import run
from ..setup.containers import importer, job_check, user_folders
from ..setup.containers.options import SETTINGS, EnrootOptions, read_options
from ..setup.containers.pyxis import fits, read_record
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments, suggest

_DESCRIPTION = """\
Tasks of a node that runs containers with enroot and pyxis. The role hpcai.azure.enroot_pyxis writes the settings to
/etc/hpcai/containers.json.
"""
_STATUSES = """\
Exit status: 0 good, 1 bad or failed, 2 there are no settings, or the result is not known.
"""
_STATUS = f"""\
Shows whether the pyxis plugin fits the installed Slurm, and what finished jobs left behind.

{_STATUSES}"""
_CHECK = f"""\
Runs a job on --nodes nodes, with one step on the host and one step in a container of IMAGE. On each node, os-release
and the mount namespace must differ between the two steps. Run it as a user who may submit jobs.

{_STATUSES}"""
_SWEEP = f"""\
Removes what finished jobs left behind: containers and partly imported images with a job's name. The boot phase does the
same (hpcnode boot run containers).

{_STATUSES}"""
_FOLDERS = f"""\
Creates the folders that enroot needs for a job's user. A prolog calls it, because only root can create them.

{_STATUSES}"""
_TOKEN = f"""\
Prints a password for an Azure container registry. The password is a secret. enroot calls token from its credentials
file. root gets the password with the machine's managed identity. Other users get it from the service hpcai-grants, for
the registries in /etc/hpcai/containers.json.

{_STATUSES}"""
_IMPORTER = f"""\
Keeps imported images in a cache for later jobs. pyxis calls it as 'importer get URI' and 'importer release', if pyxis
has the option 'importer=/usr/libexec/hpcai/pyxis-importer'.

{_STATUSES}"""


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="the image, as in srun --container-image")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="how many nodes (1)")
    parser.add_argument("--in-job", action="store_true", help="in the current job, instead of a new one")


def _add_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("registry", metavar="REGISTRY", help="such as training.azurecr.io")
    parser.add_argument("--client-id", metavar="ID", help="as root: client id of the machine's identity to use")


def _add_importer(parser: argparse.ArgumentParser) -> None:
    suggest(parser.add_argument("words", nargs="*", metavar="WORD", help="get URI, or release"), ("get", "release"))


def _execute(args: argparse.Namespace) -> Answer:
    if args.action == "check":
        return _check(args.image, args.nodes, args.in_job)
    if args.action == "token":
        return _token(args.registry, args.client_id)
    root = Root(args.root)
    options = read_options(root)
    if options is None:
        reason = f"no {SETTINGS}: role hpcai.azure.enroot_pyxis writes it"
        return Answer(UNKNOWN, reason, {"reason": reason})
    if args.action == "importer":
        return _import(options, args.words)
    if args.action == "folders":
        return _folders(options, root)
    return _status(options, root) if args.action == "status" else _sweep(options, root)


def _leftovers(options: EnrootOptions, root: Root) -> list[user_folders.Leftover]:
    return user_folders.leftovers(options.data_folder, options.pyxis_runtime_path, root)


def _status(options: EnrootOptions, root: Root) -> Answer:
    wrong, made = fits(root, run), read_record(root)
    paths = [leftover.path for leftover in _leftovers(options, root)]
    lines = [wrong or (f"pyxis {made.pyxis} fits Slurm {made.slurm}" if made else "")]
    lines += [f"left behind: {path}" for path in paths]
    data = {"fits": not wrong, "reason": wrong, "pyxis": vars(made) if made else None, "leftovers": paths}
    return Answer(BAD if wrong else GOOD, "\n".join(lines), data)


def _sweep(options: EnrootOptions, root: Root) -> Answer:
    if not root.is_this_machine:
        raise UsageError("sweep removes what is on this machine, and takes no --root")
    leftovers = _leftovers(options, root)
    problems = user_folders.remove_leftovers(leftovers, run)
    paths = [leftover.path for leftover in leftovers]
    text = "\n".join(
        [*(f"removed {path}" for path in paths if not any(path in words for words in problems)), *problems]
    )
    return Answer(BAD if problems else GOOD, text or "nothing was left behind", {"found": paths, "problems": problems})


def _folders(options: EnrootOptions, root: Root) -> Answer:
    # Imported here, because only a prolog needs it.
    from ..setup.containers.user_folders import make_all

    user, group = (os.environ.get(name, "") for name in ("SLURM_JOB_UID", "SLURM_JOB_GID"))
    if not user.isdecimal() or not group.isdecimal():
        raise UsageError("folders needs SLURM_JOB_UID and SLURM_JOB_GID: a job's prolog calls it")
    made, problems = make_all(options, int(user), int(group), root)
    text = "\n".join([*made, *problems]) or f"user {user} has enroot's folders"
    return Answer(BAD if problems else GOOD, text, {"made": made, "problems": problems})


def _check(image: str, nodes: int, in_job: bool) -> Answer:
    patient = functools.partial(run, timeout_s=1800)
    if not in_job:
        answer = patient(job_check.outer(["hpcnode", "containers", "check", "--in-job", image], nodes))
        text = (answer.stdout.strip() or answer.stderr.strip()).replace("hpcnode containers: ", "")
        good = answer.rc == GOOD and bool(answer.stdout.strip())
        return Answer(GOOD if good else BAD, text or "the job printed nothing", {"image": image, "nodes": nodes})
    host, failure = job_check.probe(None, patient)
    container, refused = job_check.probe(image, patient) if not failure else ({}, "")
    problems = [failure or refused] if failure or refused else job_check.judge(host, container)
    names = sorted({side.name for side in container.values()})
    text = (
        "; ".join(problems)
        or f"{len(container)} nodes ran {', '.join(names)} in a container: {', '.join(sorted(container))}"
    )
    return Answer(BAD if problems else GOOD, text, {"problems": problems, "systems": names, "nodes": sorted(container)})


def _token(registry: str, client_id: str | None) -> Answer:
    # Imported here, because the HTTP modules take longer to import than all the rest.
    from ..job.grants import client
    from ..machine.imds import ImdsError
    from ..machine.registry import RegistryError, registry_password

    try:
        password = client.registry_password(registry) if os.geteuid() else registry_password(registry, client_id)
    except (ImdsError, RegistryError, client.GrantsError) as error:
        raise ConfigError(str(error)) from None
    return Answer(GOOD, password, {"registry": registry, "password": password})


def _import(options: EnrootOptions, words: list[str]) -> Answer:
    if not options.cache_path:
        raise ConfigError(f"cache_path in {SETTINGS} is empty: set enroot_pyxis_cache_path to keep images.")
    cache = importer.cache_of(options.cache_path, options.cache_limit_gib, os.geteuid(), _runtime(options))
    step = importer.step_of(os.environ)
    if words == ["release"]:
        importer.release(cache, step)
        return Answer(GOOD, "", {})
    if len(words) != 2 or words[0] != "get":
        raise UsageError("importer takes 'get URI' or 'release'")
    path = importer.get(words[1], cache, step, functools.partial(run, timeout_s=importer.IMPORT_LIMIT_S))
    return Answer(GOOD, path, {"path": path})


def _runtime(options: EnrootOptions) -> str:
    """Return the folder that contains users' runtime folders; it is empty after a boot."""
    parent = options.settings.get("ENROOT_RUNTIME_PATH", "").rpartition("/user-$(id -u)")[0]
    return parent or "/run/enroot"


COMMAND = Command(
    "containers",
    "enroot and pyxis: check, sweep, registry passwords",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show whether pyxis fits Slurm, and what is left behind", _STATUS),
        Action("check", "run a job that checks containers", _CHECK, _add_check),
        Action("sweep", "remove what finished jobs left behind", _SWEEP),
        Action("folders", "create enroot's folders for a job's user", _FOLDERS),
        Action("token", "print a password for a registry", _TOKEN, _add_token),
        Action("importer", "import images for pyxis", _IMPORTER, _add_importer),
    ),
    ignores=True,
)
