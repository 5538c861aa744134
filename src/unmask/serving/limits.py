"""Limits of one request. The page is for people on one machine: work that takes minutes belongs on the command line."""

from __future__ import annotations

from math import comb

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.tables.candidates import plan_candidates
from unmask.tables.unary import pass_count

MOST_BYTES = 64 * 1024
"""Of a request's body."""
LONGEST_TEXT = 2_000
MOST_BLANKS = 8
MOST_TEXTS = 4
MOST_SCORES = 6
MOST_POSITIONS = 64
MOST_CANDIDATES = 1_024
MOST_COMPLETIONS = 100
MOST_CELLS = 40
"""Along each edge of a heat map."""
MOST_CHAINS = 16
MOST_SWEEPS = 500
MOST_STEPS = 200_000
"""Of a chain's run: chains x sweeps x free tokens."""
MOST_PASSES = 70_000
"""Of a joint: an exact pair of a vocabulary of 30,000 tokens."""
MOST_DEPENDENCE_PASSES = 40_000
MOST_MUTANTS = 20_000
MOST_JOBS = 48
"""At once; more are answered with 429."""
MOST_EXACT_TOKENS = 10
"""Of a text whose orders are enumerated; the orders of longer ones are sampled: a page waits for seconds."""


def joint_candidates(
    model: MaskedLM, text: str, candidates: int | None, exact: bool, positions: list[int] | None = None
) -> int | None:
    """The candidates of each blank as `fill` will be given them; refuses a joint that is too large to be served.

    By default it follows the speed of the model itself, not of the shared one.
    """
    cloze = model.cloze(text, positions)
    check_blanks(len(cloze.block))
    plan = plan_candidates(model, cloze, candidates, exact)
    what = f"{len(plan.sizes)} blanks of {plan.size:,} candidates take"
    _refuse_more(pass_count(plan.sizes), MOST_PASSES, what, "passes", "fewer candidates")
    return None if exact else plan.size if len(cloze.block) > 1 else None


def check_blanks(blanks: int) -> None:
    """Refuse too many blanks."""
    if blanks > MOST_BLANKS:
        raise InputError(f"the text has {blanks} blanks, and the page takes {MOST_BLANKS}: blank fewer words")


def check_dependence(positions: int, candidates: int) -> None:
    """Refuse a dependence of too many pairs."""
    passes = positions * (positions - 1) // 2 * pass_count([candidates, candidates])
    what = f"{positions} tokens with {candidates} candidates take"
    _refuse_more(passes, MOST_DEPENDENCE_PASSES, what, "passes", "fewer candidates, a shorter text")


def check_mutants(positions: int, changes: int, alphabet: int) -> None:
    """Refuse too many mutants."""
    what = f"{changes} changes among {positions} residues are"
    _refuse_more(comb(positions, changes) * (alphabet - 1) ** changes, MOST_MUTANTS, what, "mutants", "fewer residues")


def check_chains(chains: int, sweeps: int, free: int) -> None:
    """Refuse a run of too many steps."""
    what = f"{chains} chains of {sweeps} sweeps over {free} tokens are"
    _refuse_more(chains * sweeps * max(1, free), MOST_STEPS, what, "steps", "fewer chains or sweeps")


def _refuse_more(count: int, most: int, what: str, unit: str, less: str) -> None:
    if count > most:
        raise InputError(f"{what} {count:,} {unit}, and the page takes {most:,}: ask for {less}, or use the command line")
