"""Shuffle protocols, one file each; ``base`` is the seam and ``registry`` finds them."""
