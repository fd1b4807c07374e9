"""Looking into a tagger: why its labels come out as they do."""
