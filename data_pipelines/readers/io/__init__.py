"""Bytes and text of input files: opening, decompressing, decoding."""
