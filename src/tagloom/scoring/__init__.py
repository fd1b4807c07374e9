"""From logits to scores, from scores to tags: calibration, thresholds, and how good both are. Numpy only."""
