"""What is known beforehand: as it is said, in files, and matched to the names of a table."""
