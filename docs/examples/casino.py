"""Appendix D of Torroba Hennigen & Kim (2023) with the model at hand: how a Markov random field
starves a good pair.

    python docs/examples/casino.py [MODEL]

For "The [MASK] [MASK] at the casino." over the whole vocabulary: what the model's unary
conditionals say of two completions and of the MRF's own favourites, what the MRF makes of it,
and the probability of the two under every construction.
"""

from __future__ import annotations

import sys
from math import exp

from unmask import MaskedLM, derive, derive_all, unary_tables

TEXT = "The [MASK] [MASK] at the casino."
PAIRS = [("man", "is"), ("man", "was")]


def main(name: str | None) -> None:
    """Print the two tables."""
    model = MaskedLM.load(name)
    golds = {}
    for pair in PAIRS:
        cloze = model.cloze(TEXT, targets=pair)
        if cloze.gold is None or len(cloze.gold) != 2:
            sys.exit(f"{' '.join(pair)!r} is not two tokens to this model")
        golds[" ".join(pair)] = cloze.gold
    tables = unary_tables(model, model.cloze(TEXT))
    mrf = derive(tables, "mrf")
    favourites = {" ".join(model.decode(ids)): tuple(ids) for ids in mrf.topk(3)[0].tolist()}
    print(f"Z of the MRF: {exp(mrf.log_z):.4g}\n")
    print(
        f"{'completion':16}{'q(1|2)':>10}{'q(2|1)':>10}"
        f"{'m(1) m(2)':>12}{'q q':>10}{'MRF = q q / Z':>16}"
    )
    product = derive(tables, "product")
    for text, ids in (golds | favourites).items():
        a, b = (float(table[ids].exp()) for table in tables.log_q)
        alone = float(product.log_prob(ids).exp())
        own = float(mrf.log_prob(ids).exp())
        print(f"{text:16}{a:10.2g}{b:10.2g}{alone:12.2g}{a * b:10.2g}{own:16.2g}")
    print(f"\n{'construction':16}" + "".join(f"{text:>12}" for text in golds) + "   most probable")
    for joint in derive_all(tables):
        found = "".join(f"{float(joint.log_prob(ids).exp()):12.2g}" for ids in golds.values())
        best, log_prob = joint.topk(1)
        print(
            f"{joint.name:16}{found}   {' '.join(model.decode(best[0].tolist()))}"
            f" ({float(log_prob[0].exp()):.2g})"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2] or [None])
