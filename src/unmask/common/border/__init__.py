"""The border: what a user's call may say, and the one check of it.

    marks          what an annotation says beyond its type
    declarations   what a signature and its docstring say
    options        what a flat surface (command line, page, harness) can set
    values         the check of one value against its annotation
    calls          the check of a whole call: `checked`, and `settings` for dataclasses
    names          the name that was meant, where one is not known

A public function is declared once, as an ordinary function: types and defaults in its signature,
bounds as annotated_types' `Interval`, choices as `Literal`, help in the docstring's section
"Parameters". Every surface reads that. Reading it loads neither torch nor pydantic.
"""
