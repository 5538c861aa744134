"""What all rooms read: texts with blanks, signatures, results, errors, formats, files."""
