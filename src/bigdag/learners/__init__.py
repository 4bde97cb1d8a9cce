"""The methods that learn a DAG, one file each, on the loop in :mod:`bigdag.learners.base`."""
