"""Backbone, head, and the network that joins them. Everything here needs torch."""
