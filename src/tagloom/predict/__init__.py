"""Using a trained tagger: pictures in, labels out."""
