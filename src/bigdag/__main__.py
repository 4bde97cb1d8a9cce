"""``python -m bigdag``."""

from bigdag.cli import main

main()
