"""Optional steps that clean a corpus and count what they drop.

They run in this order: lines with too few words, documents with too few words,
documents in another language, documents that contain evaluation texts, and documents
that repeat an earlier one. Each step processes what the earlier steps kept.
"""
