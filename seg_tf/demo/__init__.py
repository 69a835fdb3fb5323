"""A local page that shows what a pretrained model makes of a text."""
