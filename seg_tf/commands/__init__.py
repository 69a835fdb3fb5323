"""Commands for pretrained models and their files: `seg-tf NAME`."""
