"""Exports pretrained and fine-tuned models as SavedModels and ONNX files."""
