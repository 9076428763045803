#!/usr/bin/env python3
"""Runs test suites that others wrote for SQLite, on plain, tracked and joined files, and prints what differs.

usage: Tests/Suites/run.py [--program FILE] [--source NAME=FOLDER]… [--modes MODE,…] [--work FOLDER] [--scratch FOLDER]
                           [--limit MINUTES] [SUITE]…

The suites' sources come from their source distributions, which pip downloads, or from a folder that is given. Nothing of them is
part of the project. `Documentation/compatibility.md` explains each difference.
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclass
class Suite:
    name: str
    distribution: str  # name==version for pip
    packages: list = field(default_factory=list)  # what its tests need from pip
    arguments: list = field(default_factory=list)  # pytest's arguments; for Django those of runtests.py
    folder: str = "."  # where the tests run, below the source
    whole: bool = True  # whether the source distribution has the tests
    runner: str = "pytest"
    modes: tuple = ("plain", "tracked", "joined")
    script: str = ""  # a program beside this one that runs the cases of a folder that is given


SUITES = [
    Suite("sqlite-utils", "sqlite-utils==4.2.1", ["pytest", "hypothesis"], ["tests"]),
    Suite("peewee", "peewee==4.5.3", ["pytest"], ["tests"], whole=False, runner="unittest"),
    Suite(
        "sqlalchemy",
        "SQLAlchemy==2.1.9",
        ["pytest", "pytest-xdist"],
        [
            "test/dialect/sqlite", "test/dialect/test_suite.py", "test/orm/test_unitofwork.py", "test/orm/test_unitofworkv2.py",
            "test/orm/test_naturalpks.py", "test/orm/test_cycles.py", "test/orm/test_versioning.py", "test/orm/test_session.py",
            "test/orm/test_transaction.py", "test/orm/test_manytomany.py", "test/sql/test_insert_exec.py",
            "test/sql/test_update.py", "test/sql/test_delete.py", "test/engine/test_transaction.py",
        ],
    ),
    Suite(
        "django", "Django==5.2.19", [], ["schema", "migrations", "queries", "transactions"], folder="tests", runner="django",
    ),
    Suite("sqllogictest", "", whole=False, runner="script", script="sqllogictest.py"),
    # These describe work on two sides: their programs make the replicas themselves.
    Suite("sqlite-session", "", whole=False, runner="script", script="sqlite_session.py", modes=("joined",)),
    Suite("geodiff", "", whole=False, runner="script", script="geodiff.py", modes=("joined",)),
]


def fail(text):
    print(f"suites: {text}", file=sys.stderr)
    sys.exit(2)


def source_of(suite, given, work):
    """The folder of a suite's source: the one that was given, or that of its source distribution."""
    if suite.name in given:
        return Path(given[suite.name]).resolve()
    if not suite.whole:
        return None
    folder = work / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    name = suite.distribution.split("==")[0].lower().replace("-", "_")
    for found in folder.iterdir():
        if found.is_dir() and found.name.lower().replace("-", "_").startswith(name):
            return found
    with tempfile.TemporaryDirectory() as download:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps", suite.distribution, "-d", download],
            check=True)
        archive = next(Path(download).iterdir())
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    return source_of(suite, given, work)


def python_of(suite, source, work):
    """The Python of a virtual environment that has the suite and what its tests need."""
    if suite.script:
        return Path(sys.executable)
    folder = work / "environments" / suite.name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(source), *suite.packages], check=True)
    return python


def run_suite(suite, source, python, mode, options, work, relay):
    """Runs a suite in one mode. Returns each test's outcome, and what the hook found."""
    folder = Path(tempfile.mkdtemp(prefix=f"suite-{suite.name}-{mode}-", dir=options.scratch))
    report = folder / "report.xml"
    environment = dict(os.environ)
    environment.update(
        PYTHONPATH=str(HERE / "hook"), PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0", TMPDIR=str(folder),
        ANNALS_SUITE_MODE=mode, ANNALS_SUITE_PROGRAM=str(options.program), ANNALS_SUITE_FOLDER=str(folder), ANNALS_SUITE_RELAY=relay or "")
    if suite.runner == "pytest":
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *suite.arguments]
    elif suite.runner == "unittest":
        command = [str(python), "-m", "unittest", "-v", *suite.arguments]
    elif suite.runner == "script":
        command = [str(python), "-B", str(HERE / suite.script), str(source)]
        if suite.modes == ("joined",):
            del environment["PYTHONPATH"]
    else:
        settings = folder / "suite_settings.py"
        settings.write_text(
            "from test_sqlite import *\n"
            f"for name in DATABASES:\n    DATABASES[name]['TEST'] = {{'NAME': {str(folder)!r} + '/django-' + name + '.db'}}\n")
        environment["PYTHONPATH"] += os.pathsep + str(folder)
        command = [str(python), "runtests.py", "--parallel=1", "--settings=suite_settings", "-v", "2", *suite.arguments]
    log = work / f"{suite.name}-{mode}.log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, cwd=source / suite.folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(timeout=options.limit * 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            print(f"  {suite.name}, {mode}: ended after {options.limit} minutes", flush=True)
    if suite.runner == "script":
        outcomes = json.loads((folder / "outcomes.json").read_text()) if (folder / "outcomes.json").exists() else {}
    else:
        outcomes = outcomes_of_xml(report) if suite.runner == "pytest" else outcomes_of_text(log.read_text(errors="replace"))
    found = []
    if (folder / "found.jsonl").exists():
        found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
    (work / f"{suite.name}-{mode}.json").write_text(json.dumps({"outcomes": outcomes, "found": found}, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    return outcomes, found


def outcomes_of_xml(report):
    outcomes = {}
    if not report.exists():
        return outcomes
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome, reason = "passed", ""
        if kinds:
            outcome = "skipped" if kinds[0].tag == "skipped" else "failed"
            reason = (kinds[0].get("message") or "").strip().splitlines()[0:1]
            reason = reason[0] if reason else ""
        outcomes[name] = [outcome, reason[:300]]
    return outcomes


def outcomes_of_text(text):
    """What unittest prints with -v: `name (class) ... ok`, perhaps with the docstring and output between."""
    outcomes, open_name = {}, None
    for line in text.splitlines():
        start = re.match(r"^(\w+) \(([\w.]+)\)", line)
        if start:
            open_name = start.group(2) if start.group(2).endswith("." + start.group(1)) else f"{start.group(2)}.{start.group(1)}"
        end = re.search(r"\.\.\. .*?(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b|^(ok|FAIL|ERROR)$", line)
        if open_name and end:
            word = end.group(1) or end.group(2)
            outcome = {"FAIL": "failed", "ERROR": "failed", "skipped": "skipped", "unexpected success": "failed"}.get(word, "passed")
            outcomes[open_name] = [outcome, ""]
            open_name = None
    # The report at the end has the reasons: the last line of each traceback.
    for block in re.split(r"^={70}$", text, flags=re.M)[1:]:
        start = re.match(r"\s*(FAIL|ERROR): (\w+) \(([\w.]+)\)", block)
        if not start:
            continue
        name = start.group(3) if start.group(3).endswith("." + start.group(2)) else f"{start.group(3)}.{start.group(2)}"
        lines = [line for line in re.split(r"^-{70}$", block, flags=re.M)[1].splitlines() if line.strip()] if "-" * 70 in block else []
        error = next((line for line in reversed(lines) if re.match(r"^[\w.]+(Error|Exception|Warning|Failure|Exit)\b", line)), lines[-1] if lines else "")
        outcomes[name] = ["failed", error[:300]]
    return outcomes


def count(outcomes):
    counts = collections.Counter(outcome for outcome, _ in outcomes.values())
    return counts["passed"], counts["failed"], counts["skipped"]


def print_found(found):
    """What the program said of the files: each message once, with the number of files and one test."""
    groups = collections.defaultdict(list)
    for line in found:
        text = (line.get("output") or line.get("error") or str(line.get("tables", ""))).strip()
        text = re.sub(r"(annals: )?(error: )?(/\S+: )?", "", text.splitlines()[0] if text else "", count=1)
        groups[(line["kind"], line.get("status"), re.sub(r"\b(table|of) \S+", r"\1 …", text)[:160])].append(line["test"] or line["file"])
    for (kind, status, text), tests in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"  {kind} {'' if status is None else status}: {text} ({len(tests)}, such as {tests[0][-80:]})")


def main():
    parser = argparse.ArgumentParser(description="Run test suites that others wrote, on plain, tracked and joined files.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="suites to run: " + ", ".join(suite.name for suite in SUITES))
    parser.add_argument("--program", type=Path, default=ROOT / ".build/release/annals")
    parser.add_argument("--source", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--modes", default="plain,tracked,joined")
    parser.add_argument("--work", type=Path, default=ROOT / ".build/suites")
    parser.add_argument("--scratch", default=None, help="a folder for the databases, such as one in memory")
    parser.add_argument("--limit", type=int, default=60, help="minutes for one suite in one mode")
    options = parser.parse_args()
    options.program = options.program.resolve()
    if not options.program.exists():
        fail(f"{options.program} does not exist; run `make build`")
    given = dict(entry.split("=", 1) for entry in options.source)
    unknown = set(options.suites) - {suite.name for suite in SUITES}
    if unknown:
        fail(f"unknown suite {sorted(unknown)[0]}; there are {', '.join(suite.name for suite in SUITES)}")
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)

    relay, address, data = None, None, None
    modes = options.modes.split(",")
    if "joined" in modes:
        data = tempfile.mkdtemp(prefix="suite-relay-", dir=options.scratch)
        relay = subprocess.Popen(
            [options.program, "relay", "serve", "--data", data, "--listen", "127.0.0.1:0", "--no-auth"],
            stdout=subprocess.PIPE, stderr=open(work / "relay.log", "w"), text=True)
        address = relay.stdout.readline().split()[-1]
    differing = False
    try:
        for suite in SUITES:
            if options.suites and suite.name not in options.suites:
                continue
            source = source_of(suite, given, work)
            if source is None:
                print(f"{suite.name}: left out. Give a folder that has its tests: --source {suite.name}=FOLDER")
                continue
            python = python_of(suite, source, work)
            plain = None
            for mode in modes:
                if mode not in suite.modes:
                    continue
                outcomes, found = run_suite(suite, source, python, mode, options, work, address)
                passed, failed, skipped = count(outcomes)
                kinds = collections.Counter(line["kind"] for line in found)
                print(f"{suite.name}, {mode}: {passed} passed, {failed} failed, {skipped} skipped"
                      + "".join(f", {kind} {number}" for kind, number in sorted(kinds.items())), flush=True)
                if mode == "plain":
                    plain = outcomes
                elif plain is not None or "plain" not in suite.modes:
                    for name, (outcome, reason) in sorted(outcomes.items()):
                        if outcome == "failed" and (plain or {}).get(name, ["passed"])[0] != "failed":
                            differing = True
                            print(f"  {name}: {reason}")
                print_found([line for line in found if line["kind"] not in ("verified", "compared", "untrackable", "repaired", "remade")])
    finally:
        if relay is not None:
            relay.terminate()
            relay.wait()
            shutil.rmtree(data, ignore_errors=True)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
