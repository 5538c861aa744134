"""Figures of pairs display in a notebook."""

import unmask

TWO = "the [MASK] sat on the [MASK] ."


def test_figures_display_without_pyplot(tiny):
    for figure in (
        unmask.compare(TWO, tiny, constructions="product,chain").figure(),
        unmask.dependence(TWO, tiny).figure(),
    ):
        assert type(figure).__mro__[1].__module__ == "matplotlib.figure"
        assert figure._repr_png_().startswith(b"\x89PNG")
