"""Examples that the served model can read: English where it can, a protein for a model of amino acids, else nothing."""

from __future__ import annotations

from unmask.errors import InputError
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.models.text.words import WordMarks
from unmask.serving.schemas import Example

ENGLISH = {
    "fill": Example(text="A woman is reading a book in the park.", blanks="3,5"),
    "dependence": Example(text="The doctor told her patient to drink less coffee."),
    "sample": Example(text="The old man walked his dog along the river.", blanks="1,2,3,4,5,6,7"),
    "score": Example(text="The keys to the cabinet are on the table.", second="The keys to the cabinet is on the table."),
}
HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAKDGRYYGSSYFDYWGQGTLVTVSS"
)
"""The variable domain of a human heavy chain; the residues after CAK are its most variable loop."""
LOOP = "98,99,100,101,102,103,104,105"
PROTEIN = {
    "fill": Example(text=HEAVY, blanks="101,102"),
    "mutants": Example(text=HEAVY, blanks="101,102"),
    "dependence": Example(text=HEAVY, blanks=LOOP),
    "sample": Example(text=HEAVY, blanks=LOOP),
    "score": Example(text=HEAVY, second=HEAVY.replace("SSYAMS", "SSYWMS")),
}


def examples_for(words: TextTokenizer) -> dict[str, Example]:
    """By view: the first set whose every text the tokenizer reads without an unknown token."""
    for examples in (ENGLISH, PROTEIN):
        if all(_reads(words, text) for one in examples.values() for text in (one.text, one.second) if text):
            return examples
    return {}


def marks_words(words: TextTokenizer) -> bool:
    """Whether the tokenizer marks where a word begins, so that a blank can be a whole word."""
    try:
        WordMarks(words, words.size)
    except InputError:
        return False
    return True


def _reads(words: TextTokenizer, text: str) -> bool:
    try:
        return words.unknown_id not in words.tokens_of(text).ids
    except InputError:
        return False
