"""Private contextual bandits in the shuffle model."""
