"""Work that lasts: files and folders of runs. This room knows no model and no mathematics.

files        one way to write a file (whole or not at all) and to read one (or say in one line what is wrong with it)
lines        the lines of a user's text file, plain or compressed, with the line's number in every error
outputs      places where results may go
folder       one run folder: settings, lock, parts, resumption
fingerprint  hashes of weights, tokenizers, texts and files; date, command, versions and hardware behind the numbers
progress     the callback that reports how much of the work is done
engine       one function on many items, here or on Ray
"""
