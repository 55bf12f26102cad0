"""What a role keeps: its database, leases on batches, and the ledger."""
