"""A number for a sentence, by a named definition, with its error where it has one."""
