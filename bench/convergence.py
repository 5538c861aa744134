"""Whether the solver converges on real text, checked in float64 from the returned probabilities alone.

    PYTHONPATH=src python bench/convergence.py texts.txt [--model DIR] [--pairs 100] [--scheme random] [--tokens 1024 | --exact]

For each pair both constructions are derived. The marginals of each joint are summed from its cells in float64. Both maps that
have the fixed point (eq. 5 and the sweep) are applied to them once, over tables in float64. A pair fails if a map moves a
marginal by more than the solver's tolerance in total variation or raises one by more than its bound on growth, or if the
solver says that it has not converged. Failures are printed as they come; counts every 50 pairs and at the end.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

from unmask.errors import UnmaskWarning
from unmask.evaluation.pairs import choose_pairs, read_texts
from unmask.joints.arnold_gokhale import TOLERANCE, FamilyRule
from unmask.joints.deriving import derive_all
from unmask.joints.joint import Joint
from unmask.joints.metrics import read_rules
from unmask.joints.registry import named
from unmask.joints.solver import GROWS, standings
from unmask.joints.sweeps import Members
from unmask.models.masked_lm import MaskedLM
from unmask.tables.candidates import choose_candidates
from unmask.tables.unary import unary_tables


def standing(joint: Joint) -> tuple[float, float]:
    """(moved, growth) of the joint's own marginals under both maps, in float64."""
    tables = replace(joint.tables, log_q=tuple(q.double().log_softmax(t) for t, q in enumerate(joint.tables.log_q)))
    member = named(joint.name).member
    assert member is not None
    cells = joint.dense().double()
    marginals = (cells.logsumexp(0, keepdim=True), cells.logsumexp(1, keepdim=True))
    members = Members.of([tables], [member])
    reading = read_rules([(tables, [FamilyRule.at(tables, marginals, member)])])[0]
    (found,) = standings(members, [marginals], reading)
    return found.moved, found.growth


def main() -> None:
    """Print every failure, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--scheme", choices=["contiguous", "random"], default="contiguous")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--joints", default="arnold_gokhale,restarted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnmaskWarning)
    model = MaskedLM.load(options.model, device=options.device) if options.model else MaskedLM.load(device=options.device)
    texts, names = read_texts(options.data), options.joints.split(",")
    pairs, _ = choose_pairs(texts, model.words.encode, model.special_ids, options.scheme, options.pairs, options.seed, 40)
    failed, steps, worst, began = dict.fromkeys(names, 0), dict.fromkeys(names, 0), [0.0, 0.0], time.monotonic()
    for count, pair in enumerate(pairs, 1):
        cloze = pair.cloze(model.mask_id)
        tokens = choose_candidates(model, cloze, None if options.exact else options.tokens, options.exact)
        for joint in derive_all(unary_tables(model, cloze, tokens), names):
            moved, growth = standing(joint)
            steps[joint.name] = max(steps[joint.name], int(joint.report["steps"]))
            worst = [max(worst[0], moved), max(worst[1], growth)]
            if not (joint.report["converged"] and moved < TOLERANCE and growth < GROWS):
                failed[joint.name] += 1
                where = f"{model.decode(pair.gold)} at {pair.block} of {pair.text!r}"
                print(f"{joint.name}: moved {moved:.1e}, growth {growth:.1e}, {dict(joint.report)}: {where}", flush=True)
        if count % 50 == 0 or count == len(pairs):
            counts = ", ".join(f"{name} {failed[name]} (most steps {steps[name]})" for name in names)
            seconds = (time.monotonic() - began) / count
            print(f"{count} {options.scheme} pairs of {options.data}, {seconds:.1f} s each: failed {counts}; "
                  f"largest move {worst[0]:.1e}, growth {worst[1]:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
