"""Numbers, no names and no files: second moments, and regressions on them."""
