"""How good an answer is, and how far it depends on units."""
