"""``python -m bigdag.cli``."""

from bigdag.cli import main

main()
