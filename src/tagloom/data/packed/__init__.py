"""Images packed into few large files: Parquet shards, as the Hugging Face hub stores image data sets, and tars."""
