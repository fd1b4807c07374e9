"""Distillation: teachers of parts of the labels, each an ordinary run, then one student."""
