"""Checkpoints of the papers' authors as tagger folders: whole models, backbone and head, under the authors' names.

Only names and shapes of tensors are known here. Each converter takes every tensor of a file exactly once, so that
nothing in a file goes unnoticed, and nothing that the head needs is missing.
"""
