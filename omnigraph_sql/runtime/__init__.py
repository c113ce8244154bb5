"""Runtime: limits, cancellation, worker threads and streams of batches, shared by all engines."""
