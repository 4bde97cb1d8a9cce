"""What an experiment is to do: the plan's file, and its runs."""
