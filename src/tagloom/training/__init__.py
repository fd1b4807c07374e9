"""Training: from a plan to a tagger folder. `run` tells the story; `distill` trains teachers and then a student."""
