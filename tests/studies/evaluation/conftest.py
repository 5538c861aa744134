import random

import pytest


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Forty texts of 2 to 9 words that the tiny model knows."""
    draw = random.Random(5)
    words = "the a cat dog sat ran on under mat tree".split()
    path = tmp_path_factory.mktemp("corpus") / "texts.txt"
    path.write_text(
        "".join(" ".join(draw.choices(words, k=draw.randint(2, 9))) + " .\n" for _ in range(40))
    )
    return path


@pytest.fixture
def faulty(tiny):
    """A model like `tiny` that raises a given error when it is asked about a given masked text,
    and else gives its numbers.
    """
    from unmask.models.masked_lm import MaskedLM

    class Faulty(MaskedLM):
        def __init__(self, faults):
            super().__init__(tiny.network, tiny.tokenizer)
            self.faults = faults

        def logits_at(self, ids, positions):
            for row in ids.tolist():
                fault = self.faults.get(tuple(row))
                if isinstance(fault, BaseException):
                    raise fault
                if fault is not None:
                    return super().logits_at(ids, positions) * fault
            return super().logits_at(ids, positions)

    return Faulty
