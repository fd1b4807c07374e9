"""The tagger folder, which training writes and prediction reads: its spec, its model card, its ONNX network."""
