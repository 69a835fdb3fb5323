"""Records on disk: their schema, their shards with sidecar files, their manifest."""
