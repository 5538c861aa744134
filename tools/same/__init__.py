"""The parts of `tools/same.py`, which compares two checkouts bit for bit.

    materials.py    tiny models, texts and files that both checkouts read
    calls/          what is called: data, in the names of unmask at the end of issue 57
    adapters.py     how a checkout is called, and which parts of its results are values: one class
                    per generation of names
    values.py       from results to named arrays, texts and messages
    worker.py       the process that makes the calls of one checkout
    running.py      both sides: their sources and their workers
    comparison.py   differences between the values of two checkouts
    intended.toml   the list of differences that are meant
    faults.py       faults that are planted into a checkout, to see that the comparison finds them
    settings.toml   the commit at the end of each issue

To add a call, add an entry to a list in calls/. To read a checkout with other names, add a class to
adapters.py.
"""
