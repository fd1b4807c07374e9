"""The tagger folder, the joint between training and prediction: its files, its spec, its card, its ONNX runner."""
