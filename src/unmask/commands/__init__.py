"""The commands of `unmask`, one a file: each reads its options, calls the Python API of the same name, and prints."""
