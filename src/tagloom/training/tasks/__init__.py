"""Tasks: what one training step computes. Each owns forward and loss; `choose_task` picks a run's."""
