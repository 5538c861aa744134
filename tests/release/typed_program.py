"""A small program of a user: it passes mypy --strict against the installed package, and runs."""

from __future__ import annotations

import unmask


def best(text: str) -> str:
    """The most probable completion."""
    filling = unmask.fill(text, top=1)
    completion: unmask.Completion = filling.completions[0]
    return completion.text


def dependences(texts: list[str], model: unmask.MaskedLM) -> list[float]:
    """The mutual information of the two blanks of each text, in nats."""
    return [
        filling.joint.mutual_information() for filling in unmask.fill(texts, model, candidates=16)
    ]


def joints(model: unmask.MaskedLM) -> dict[str, float]:
    """The entropy of some constructions over the same tables."""
    comparison = unmask.compare(
        "A [MASK] [MASK] here.", model, candidates=16, constructions=["product", "chain"]
    )
    return {name: joint.entropy() for name, joint in comparison.joints.items()}


def main() -> None:
    """Use the library as its documentation says."""
    model = unmask.MaskedLM.load()
    print(best("She drank a cup of [MASK]."))
    print(dependences(["A [MASK] [MASK] here.", "The [MASK] [MASK] there."], model))
    print(joints(model))
    try:
        unmask.fill("No blank here.", model)
    except unmask.InputError as error:
        print(error)


if __name__ == "__main__":
    main()
