"""Tagger folders for use elsewhere: packed, quantised, with everything inside, and measured before they are kept."""
