"""Loading records for training: order of samples, rows, masking, batches."""
