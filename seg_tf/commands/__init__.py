"""Commands of `seg-tf` for pretrained models and their files."""
