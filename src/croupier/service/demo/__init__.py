"""All three roles live on one machine, with a crowd of simulated users."""
