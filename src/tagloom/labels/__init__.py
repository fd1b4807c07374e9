"""Sets of labels: which appear together, which share a query, which are held out of training."""
