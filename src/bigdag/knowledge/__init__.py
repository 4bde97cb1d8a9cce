"""What is known beforehand: as it is said, in files, and matched to the names of a table."""

from bigdag.knowledge.known import Knowledge, as_knowledge, limits_of

__all__ = ["Knowledge", "as_knowledge", "limits_of"]
