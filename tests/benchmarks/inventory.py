# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the inventory with azure_rm, with bare SDK list calls, and with a static file.

All contenders use one simulated Azure with a given latency. They are interleaved (each round runs every contender
once), and each run is a separate process. The output is a Markdown table and a comparison with the targets. All samples
go to a JSON file.

Run it with `make bench` or `tests/benchmarks/run.sh OPTIONS`, on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import contenders, machine, measure, report, static
from benchmarks.contenders import Contender, Endpoints
from benchmarks.report import Result

RESULTS = Path(__file__).with_name("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    theirs = None if options.no_azure_rm else contenders.THEIRS
    about = {
        "commit": machine.commit(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "latency_ms": options.latency,
        "repeat": options.repeat,
        "set_size": options.set_size,
        "machine": machine.describe(theirs),
    }
    results: list[Result] = []
    for instances in options.sizes:
        slow = instances <= options.slow_up_to
        size = options.set_size or instances
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = Path(name)
            with _azure(instances, size, options.latency, folder) as endpoints:
                chosen = contenders.make(endpoints, folder, slow and theirs is not None, slow)
                results.extend(measure_all(chosen, endpoints, folder, instances, options.repeat))
    lines = [_headline(about), "", report.table(results), "", *report.verdicts(results), "", _remarks(results)]
    print("\n".join(lines))
    _save(options.results, about, results, lines)
    return 0


def measure_all(
    chosen: Sequence[Contender], endpoints: Endpoints, folder: Path, instances: int, repeat: int
) -> list[Result]:
    """Measure the contenders at one number of instances."""
    _prepare(chosen, folder, instances)
    results = {contender.name: Result(instances, contender.name, 0, 0, 0, 0) for contender in chosen}
    for number in range(1, repeat + 1):
        for contender in chosen:
            _say(f"{instances:,} instances, round {number} of {repeat}: {contender.name}")
            _run(contender, endpoints, folder, results[contender.name])
    for contender in chosen:
        wanted = 0 if contender.name == contenders.EMPTY else instances
        if results[contender.name].hosts != wanted:
            raise SystemExit(f"{contender.name} found {results[contender.name].hosts} hosts, not {wanted}")
    return list(results.values())


def _prepare(chosen: Sequence[Contender], folder: Path, instances: int) -> None:
    """Fill the cache, write the static files, and check that all contenders return the same."""
    by_name = {contender.name: contender for contender in chosen}
    live, cached = by_name[contenders.LIVE], by_name[contenders.CACHED]
    _say(f"{instances:,} instances: preparing")
    measure.measure((*live.command, "--export"), live.environment, folder)
    static.write(static.load(folder / "out"), *contenders.static_files(folder), contenders.STATIC_YAML in by_name)
    measure.measure(cached.command, cached.environment, folder)
    if contenders.STATIC_YAML in by_name:
        _compare(live, [cached, by_name[contenders.STATIC_JSON], by_name[contenders.STATIC_YAML]], folder)
    if contenders.AZURE_RM in by_name:
        # A first run, which is not measured, compiles the modules and gets the list of clouds.
        measure.measure(by_name[contenders.AZURE_RM].command, by_name[contenders.AZURE_RM].environment, folder)


def _compare(one: Contender, others: Sequence[Contender], folder: Path) -> None:
    measure.measure(one.command, one.environment, folder)
    wanted = static.load(folder / "out")
    for other in others:
        measure.measure(other.command, other.environment, folder)
        if found := static.differences(wanted, static.load(folder / "out")):
            raise SystemExit(f"{one.name} and {other.name} differ: {'; '.join(found)}")


def _run(contender: Contender, endpoints: Endpoints, folder: Path, result: Result) -> None:
    _admin(endpoints, "DELETE")
    before = _get(f"{endpoints.plain}/late")["late"]
    sample = measure.measure(contender.command, contender.environment, folder)
    log = _get(f"{endpoints.admin}/_simulator/requests")
    result.samples.append(sample)
    result.late += _get(f"{endpoints.plain}/late")["late"] - before
    result.batches = sum(count for what, count in log["counts"].items() if what.startswith("POST"))
    requests = log["total"] - result.batches
    if result.requests not in (0, requests) or bool(requests) is not contender.asks:
        raise SystemExit(f"{contender.name} made {requests} requests, which is not as expected")
    result.requests = requests
    result.hosts = contender.found(folder / "out")


@contextmanager
def _azure(instances: int, set_size: int, latency: float, folder: Path) -> Iterator[Endpoints]:
    """A simulated Azure in a separate process."""
    command = [sys.executable, "-m", "benchmarks.serve", "--folder", str(folder)]
    command += ["--instances", str(instances), "--set-size", str(set_size), "--latency", str(latency)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the simulated Azure did not start, see above")
        yield Endpoints(**json.loads(line))
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def _admin(endpoints: Endpoints, method: str) -> None:
    request = urllib.request.Request(f"{endpoints.admin}/_simulator/requests", method=method)
    urllib.request.urlopen(request, timeout=30).close()


def _headline(about: dict[str, Any]) -> str:
    here = about["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
    text = (
        f"{about['latency_ms']:g} ms for each request, {about['repeat']} rounds, interleaved, "
        f"{_shape(about['set_size'])}, at {about['commit']}; "
        f"{here['cpus']} CPUs ({here['cpu']}), {here['memory_mib'] / 1024:.0f} GiB, {here['system']}, load average "
        f"{here['load_average']} before; Python {here['python']}, {packages}"
    )
    if theirs := here.get("azure_rm_packages"):
        text += f"; azure_rm with {', '.join(f'{name} {version}' for name, version in theirs.items())}"
    return text + "."


def _shape(set_size: int | None) -> str:
    return f"{set_size:,} instances in a scale set" if set_size else "half Uniform, half Flexible, one scale set each"


def _remarks(results: Sequence[Result]) -> str:
    late = sum(result.late for result in results)
    asked = sum((result.batches or result.requests) * len(result.samples) for result in results)
    return (
        "The target compares with a lower bound that reads the lists one after the other and does nothing else; "
        "reading them 8 at a time shows the gain from concurrency alone. azure_rm has the best case: a batch of 100 "
        f"requests takes as long as one. Of {asked:,} answers, {late:,} took the simulator longer than the latency."
    )


def _save(folder: Path, about: dict[str, Any], results: Sequence[Result], lines: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("%Y%m%d-%H%M%S.json")
    document = {**about, "results": [result.document() for result in results], "report": list(lines)}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    _say(f"all samples are in {path}")


def _say(line: str) -> None:
    print(f"[bench] {time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/benchmarks/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=_numbers, default=[100, 1000, 10000], metavar="N,N", help="numbers of instances"
    )
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds (default: %(default)s)")
    parser.add_argument(
        "--latency", type=float, default=50, metavar="MS", help="of each request (default: %(default)s)"
    )
    parser.add_argument(
        "--slow-up-to", type=int, default=1000, metavar="N", help="azure_rm and YAML (default: %(default)s instances)"
    )
    parser.add_argument(
        "--set-size",
        type=int,
        metavar="N",
        help="instances per scale set; Azure's limit is 1000 (default: half in one Uniform, half in one Flexible set)",
    )
    parser.add_argument("--no-azure-rm", action="store_true", help="omit azure_rm, so that .venv-bench is not needed")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="(default: %(default)s)")
    return parser


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in text.split(","))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except measure.CommandFailed as error:
        sys.exit(f"inventory.py: {error}")
