"""Backbone, head, and the tagger that joins them. Everything here needs torch."""
