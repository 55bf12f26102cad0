"""The shuffler: takes reports, completes batches, and hands them on shuffled."""
