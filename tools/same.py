"""Compare two checkouts of unmask bit for bit: about 2,000 calls, a third of them also on two
threads.

    python tools/same.py OLD NEW              folders with checkouts, or revisions of this
                                              repository
    python tools/same.py --since 57           the end of issue 57 (settings.toml), and the
                                              working tree
    python tools/same.py OLD NEW --after 57   the list of intended changes, from the issues after 57
    python tools/same.py OLD NEW --quick      a twelfth of the calls
    python tools/same.py OLD NEW --only 'fill/*|joint/*'
    python tools/same.py --faults             plant faults into the working tree, and find each

Exit code 0: the same, but for what tools/same/intended.toml lists; 1: not the same, or a fault was
not found. The parts of this tool are described in tools/same/__init__.py. It belongs to no release.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from same import comparison, running
from same.calls import Call, all_calls
from same.faults import FAULTS
from same.materials import write_materials

QUICK = 12
"""Of --quick: one call in so many."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the tool; its exit code."""
    chosen = arguments(words)
    calls = faults_calls(chosen.only) if chosen.faults else chosen_calls(chosen.only, chosen.quick)
    clock = running.Clock()
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        scratch = Path(chosen.keep or folder).resolve()
        (scratch / "materials").mkdir(parents=True)
        write_materials(scratch / "materials", calls)
        if chosen.faults:
            code = find_faults(
                chosen.new or chosen.old or str(running.REPOSITORY), chosen.only, scratch
            )
        else:
            old = running.commit_of_issue(chosen.since) if chosen.since else chosen.old
            new = chosen.old if chosen.since else chosen.new
            code = compare_checkouts(old, new or str(running.REPOSITORY), calls, scratch, chosen)
    print(f"({clock})")
    return code


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", help="a folder with a checkout, or a revision")
    parser.add_argument("new", nargs="?", help="another one [default: the working tree]")
    parser.add_argument(
        "--since", metavar="ISSUE", help="the commit at the end of this issue in the place of OLD"
    )
    parser.add_argument(
        "--after",
        metavar="ISSUE",
        type=int,
        help="expect the intended changes of the issues after this one",
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        default="*",
        help="calls whose names fit, such as 'fill/*|joint/*'",
    )
    parser.add_argument("--quick", action="store_true", help=f"one call in {QUICK}")
    parser.add_argument(
        "--faults", action="store_true", help="plant faults, and see that each is found"
    )
    parser.add_argument(
        "--one-thread", action="store_true", help="leave out the calls with two threads"
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write every difference to this file, JSON"
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", help="leave models and values in this folder, which must be new"
    )
    chosen = parser.parse_args(words)
    if not chosen.faults and not chosen.since and not chosen.old:
        parser.error("give OLD and NEW, or --since ISSUE, or --faults")
    return chosen


def chosen_calls(pattern: str, quick: bool) -> list[Call]:
    """The calls whose names fit one of the patterns between bars."""
    fitting = [call for call in all_calls() if fits(call["name"], pattern)]
    if not fitting:
        raise SystemExit(f"no call fits --only {pattern}")
    return fitting[::QUICK] if quick else fitting


def faults_calls(pattern: str) -> list[Call]:
    """The calls of all faults whose names fit the pattern."""
    return [
        call
        for name, fault in FAULTS.items()
        if fits(name, pattern)
        for call in chosen_calls(fault.calls, quick=False)
    ]


def fits(name: str, patterns: str) -> bool:
    """Whether a name fits one of the patterns between bars, in which only `*` has a meaning of
    its own.
    """
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns.split("|"))


def compare_checkouts(
    old: str, new: str, calls: Sequence[Call], scratch: Path, chosen: argparse.Namespace
) -> int:
    """Make the calls of both checkouts side by side, and print how they differ."""
    sources = {"old": running.checkout(old, scratch), "new": running.checkout(new, scratch)}
    runs = {1: calls, 2: [] if chosen.one_thread else running.with_two_threads(calls)}
    values: dict[str, dict[str, comparison.Values]] = {"old": {}, "new": {}}
    for threads, made in runs.items():
        if not made:
            continue
        workers = {
            side: running.start(source, made, scratch, f"{side}-{threads}", threads)
            for side, source in sources.items()
        }
        for side, worker in workers.items():
            of_calls = comparison.read_values([worker.finish()])
            end = "" if threads == 1 else f"@{threads} threads"
            values[side].update({f"{name}{end}": found for name, found in of_calls.items()})
    after = chosen.since or chosen.after
    changes = [] if after is None else comparison.intended_changes(int(after))
    report = comparison.compare(values["old"], values["new"], changes)
    if chosen.quick or chosen.only != "*":
        report.not_seen.clear()  # they may occur in calls that were not made
    print(comparison.as_text(report))
    if chosen.report:
        Path(chosen.report).write_text(
            json.dumps(comparison.as_json(report), indent=1), encoding="utf-8"
        )
    return 0 if report.passed else 1


def find_faults(checkout: str, pattern: str, scratch: Path) -> int:
    """Plant every fault that fits the pattern; print which call found it."""
    source = running.checkout(checkout, scratch)
    missed = 0
    for name, fault in FAULTS.items():
        if not fits(name, pattern):
            continue
        calls = chosen_calls(fault.calls, quick=False)
        workers = [
            running.start(source, calls, scratch, f"{name}-sound"),
            running.start(source, calls, scratch, f"{name}-planted", fault=name),
        ]
        sound, planted = (comparison.read_values([worker.finish()]) for worker in workers)
        report = comparison.compare(sound, planted)
        found = [one for one in report.failures if fnmatchcase(one.value, fault.value)]
        if found:
            first = found[0]
            number = len({one.call for one in found})
            print(
                f"found   {name} ({fault.about}): {number} of {len(calls)} calls, first"
                f" {first.name}: {first.what}"
            )
        else:
            missed += 1
            print(f"MISSED  {name} ({fault.about}): none of {len(calls)} calls differs")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
