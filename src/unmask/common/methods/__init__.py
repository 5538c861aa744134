"""Methods: kernels, decoders, scores, constructions, energies, masking schemes.

A method is one class in one file: its options are its fields, its docstring the words and the
equation, its methods the mathematics, and class attributes are its facts. Nothing else knows its
name.

    method      the base class of all methods, and the decorator `method`
    registry    the classes of one kind, collected from the files of a folder
    spelling    how a method is named in a text: a name, family:0.5,0.25, my_rules.py:Mine
    own_code    a user's own file: loaded, fingerprinted, sent to workers

A user's own class is taken wherever ours are, as an object, or as `file.py:Class`. A file is loaded
only where the user of this process names it: never from a request, a folder or a checkpoint.
"""
