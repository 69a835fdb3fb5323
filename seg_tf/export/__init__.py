"""Exports pretrained and fine-tuned models as SavedModels that take text."""
