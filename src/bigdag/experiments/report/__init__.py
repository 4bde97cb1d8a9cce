"""What came out: tables, pictures and one page."""
