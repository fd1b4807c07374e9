"""Distillation: one teacher per part of the labels, each an ordinary run, then one student that learns from all."""
