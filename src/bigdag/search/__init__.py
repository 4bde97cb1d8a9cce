"""Orders: where to begin, and how to move to a better one."""
