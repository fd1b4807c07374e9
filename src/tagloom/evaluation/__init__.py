"""Measuring taggers on labelled tables: one, two against each other, and what they find hard."""
