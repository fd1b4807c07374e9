"""What an exported network shows besides logits: further outputs of `model.onnx`.

They are computed only when they are asked for. Files from before they existed have one output, the logits.
"""

LOGITS = "logits"
EVIDENCE = "evidence"
FEATURES = "features"
INSIDES = (LOGITS, EVIDENCE, FEATURES)
"""Logits (B, N); how much of each came from each position (B, N, h, w); the last feature map (B, C, h, w)."""
