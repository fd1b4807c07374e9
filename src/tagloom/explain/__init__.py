"""Looking inside a tagger: why it gives the scores it gives."""
