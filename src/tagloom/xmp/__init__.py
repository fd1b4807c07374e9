"""Keywords in XMP, on bytes alone: read them, write them, take them out, and leave everything else as it was."""
