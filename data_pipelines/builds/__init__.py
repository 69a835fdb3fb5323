"""Builds of records: documents and windows, by local processes or by Beam."""
