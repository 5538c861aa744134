"""Work that lasts, whatever the work is: this room knows no model and no mathematics.

files        one way to write a file (whole or not at all) and to read one (or say in one line what is wrong with it)
lines        the lines of a user's text file, plain or compressed, with the line's number in every error
folder       one run folder: settings, lock, parts, resumption
fingerprint  what identifies weights, a tokenizer, a text, a file
provenance   date, command, versions and hardware behind the numbers
progress     the one callback that tells how far work is
engines      items in, results or reasons out: in this process, or on Ray
"""
