"""What a DAG is: weights, names and order; acyclicity, equivalence, files, pictures."""
