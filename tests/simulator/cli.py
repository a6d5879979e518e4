# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``python -m simulator``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from simulator import backends, control, scenario
from simulator.backends import BackendError
from simulator.backends.containers.privilege import become_root
from simulator.control import ControlError
from simulator.scenario import Scenario, ScenarioError
from simulator.serve import AlreadyRunning, digest, serve
from simulator.statedir import StateDir

SCENARIOS = Path(__file__).with_name("scenarios")
EXAMPLES = """\
examples:
  python -m simulator up site                     # the scenario scenarios/site.yml, real nodes
  python -m simulator up my.yml --backend none    # state only, thousands of instances
  python -m simulator list
  python -m simulator down --name site
"""


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run a command."""
    options = _parser().parse_args(arguments)
    try:
        if _needs_root(options):
            become_root(list(sys.argv[1:] if arguments is None else arguments), say)
        return int(options.run(options))
    except (ScenarioError, BackendError, ControlError, AlreadyRunning, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _needs_root(options: argparse.Namespace) -> bool:
    """Whether the command uses containers, which need root."""
    if options.run is down:
        return StateDir.of(options.name, options.state_dir).read().get("backend") == "containers"
    return options.run is image or getattr(options, "backend", "") == "containers"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator",
        description="A simulation of parts of Azure: Resource Manager, instance metadata, and nodes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    start = argparse.ArgumentParser(add_help=False)
    start.add_argument("scenario", help=f"a YAML file, or the name of one in {SCENARIOS.name}/ (site)")
    start.add_argument("--name", help="name of the simulator (default: the scenario's name)")
    start.add_argument("--backend", choices=backends.NAMES, default="containers", help="default: %(default)s")
    start.add_argument("--port", type=int, help="Resource Manager's port on loopback (default: the scenario's)")
    start.add_argument("--network", metavar="CIDR", help="the virtual network's addresses (default: the scenario's)")
    start.add_argument("--boot-timeout", type=float, default=300, metavar="S", help="per node (default: %(default)s)")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--state-dir", type=Path, help="default: .simulator/NAME in the repository")

    command = commands.add_parser("up", parents=[start, where], help="start a simulator and wait until it is up")
    command.add_argument("--timeout", type=float, default=1200, metavar="S", help="in total (default: %(default)s)")
    command.set_defaults(run=up)
    command = commands.add_parser("serve", parents=[start, where], help="run a simulator in the foreground")
    command.set_defaults(run=run_server)
    command = commands.add_parser("down", parents=[where], help="stop a simulator and remove all that it made")
    command.add_argument("--name", required=True)
    command.set_defaults(run=down)
    command = commands.add_parser("list", parents=[where], help="show simulators and their nodes")
    command.set_defaults(run=show)
    command = commands.add_parser("image", help="build the node images if they are missing or outdated")
    command.set_defaults(run=image)
    return parser


def up(options: argparse.Namespace) -> int:
    """Start a simulator unless the same one is up."""
    wanted, state = _scenario(options), _state(options)
    if state.living() is not None:
        return _already(wanted, options.backend, state)
    module = backends.load(options.backend)
    if state.read():
        say(f"cleaning up after an earlier simulator {wanted.name} that died")
        control.stop(wanted.name, state, say)
    module.prepare(say)
    say(f"starting the simulator {wanted.name} ({options.backend})")
    process = control.spawn(_serve_arguments(options, wanted, state), state)
    try:
        nodes = control.wait_until_up(process, state, options.timeout, say)
    except (ControlError, KeyboardInterrupt):
        if process.poll() is None:
            say(f"the simulator is still running; remove it with: python -m simulator down --name {wanted.name}")
        raise
    say(f"up: {len(nodes)} nodes")
    _say_how(state)
    return 0


def run_server(options: argparse.Namespace) -> int:
    """Run the server in the foreground."""
    return serve(_scenario(options), options.backend, _state(options), options.boot_timeout)


def down(options: argparse.Namespace) -> int:
    """Stop a simulator and remove all that it made."""
    if control.stop(options.name, StateDir.of(options.name, options.state_dir), say):
        say(f"removed the simulator {options.name}")
    else:
        say(f"there is no simulator {options.name}")
    return 0


def show(options: argparse.Namespace) -> int:
    """List simulators with their nodes."""
    found = [(state, state.read()) for state in control.known(options.state_dir)]
    found = [(state, document) for state, document in found if document]
    if not found:
        say("no simulators")
    for state, document in found:
        answer = control.ask(document["endpoint"]) if state.living() is not None else None
        word = "up" if answer else ("not answering" if state.living() is not None else "dead")
        say(f"{document['name']}  {word}  {document['backend']}  {document['endpoint']}  since {document['started']}")
        for item in answer["instances"] if answer else []:
            public = f"  public {item['public_ipv4']}" if item["public_ipv4"] else ""
            states = f"{item['provisioning_state']}/{item['power_state']}"
            say(f"  {item['name']:<16} {item['computer_name']:<18} {states:<22} {item['private_ipv4'] or '-'}{public}")
    return 0


def image(options: argparse.Namespace) -> int:
    """Build the images of the nodes."""
    backends.load("containers").prepare(say)
    return 0


def _scenario(options: argparse.Namespace) -> Scenario:
    path = Path(options.scenario)
    if not path.suffix and not path.is_file():
        path = SCENARIOS / f"{options.scenario}.yml"
        if not path.exists():
            names = ", ".join(sorted(item.stem for item in SCENARIOS.glob("*.yml")))
            raise ScenarioError(f"no scenario {options.scenario!r}: give a file, or one of {names}")
    loaded = scenario.load(path)
    port = loaded.port if options.port is None else options.port
    loaded = dataclasses.replace(loaded, name=options.name or loaded.name, port=port)
    return scenario.moved(loaded, options.network) if options.network else loaded


def _state(options: argparse.Namespace) -> StateDir:
    return StateDir.of(_scenario(options).name, options.state_dir)


def _serve_arguments(options: argparse.Namespace, wanted: Scenario, state: StateDir) -> list[str]:
    path = Path(options.scenario)
    text = str(path.resolve()) if path.is_file() else options.scenario
    return [
        text,
        f"--name={wanted.name}",
        f"--backend={options.backend}",
        f"--port={wanted.port}",
        *([f"--network={options.network}"] if options.network else []),
        f"--boot-timeout={options.boot_timeout}",
        f"--state-dir={state.path}",
    ]


def _already(wanted: Scenario, backend: str, state: StateDir) -> int:
    document = state.read()
    remedy = f"stop it first: python -m simulator down --name {wanted.name}"
    answer = control.ask(document.get("endpoint", "")) if document else None
    if answer is None:
        raise ControlError(f"the simulator {wanted.name} (process {state.living()}) does not answer; {remedy}")
    if document["digest"] != digest(wanted, backend):
        raise ControlError(f"a simulator {wanted.name} is up with another scenario or backend; {remedy}")
    say(f"the simulator {wanted.name} is up already: {len(answer['instances'])} nodes")
    _say_how(state)
    return 0


def _say_how(state: StateDir) -> None:
    document = state.read()
    name = document["name"]
    say(f"  Resource Manager  {document['endpoint']}  (token {document['token']})")
    say(f"  subscription      {document['subscription']}")
    if document["backend"] != "none":
        say(f"  ssh               ssh -i {document['private_key']} {document['admin_username']}@ADDRESS")
    say(f"  nodes             python -m simulator list       stop it: python -m simulator down --name {name}")
