"""What one training step computes. The loop knows only that a task gives a loss."""
