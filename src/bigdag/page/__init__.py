"""HTML pages that need nothing but themselves: plain data in, one document out."""
