"""Work that lasts: files that appear whole or not at all, and where numbers come from."""
