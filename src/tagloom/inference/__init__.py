"""From a tagger folder to tags: no torch needed."""
