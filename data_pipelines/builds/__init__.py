"""Builds shards of documents and windows, with local processes or Apache Beam."""
