"""Exports pretrained and fine-tuned models as SavedModels that accept text."""
