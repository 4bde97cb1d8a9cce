"""A DAG with means and noise variances: what it predicts, what causes do, what is missing."""
