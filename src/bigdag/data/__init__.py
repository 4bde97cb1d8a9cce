"""The door in: tables and data frames become a checked, centred `Dataset`."""

from bigdag.data.dataset import Dataset, as_dataset

__all__ = ["Dataset", "as_dataset"]
