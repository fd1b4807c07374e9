"""Reviewing tags: what people answer about photos, which photo to ask about next, and what is learned from answers."""
