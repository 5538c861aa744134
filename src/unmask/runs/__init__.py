"""Work that lasts: files, folders of runs, hashes, progress, and one function on many items.
This room knows no model.
"""
