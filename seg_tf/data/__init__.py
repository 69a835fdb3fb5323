"""Input pipelines that turn stored records into training batches."""
