"""The certificate for shuffled bits: what counts of bits give away, step by step as it is proved.

Shuffled bits of one label say their number of ones: honest coins plus what users add (MATH 4).

1. Tests that tell two inputs apart are thresholds on the count.
2. So it is enough to compare normal quantiles at thresholds outside of tails: ``find_window``.
3. How fast they move per step, chords and rounding: ``general_slope`` (``quantile_slope``, on the
   tails of ``binomial_tails``).
4. All labels together: ``Slope.mu``, and the curve of delta against epsilon: ``BinomialCurve``.
5. Several releases: squares of mu (``curve``), several reports in one (``count_release``), the
   worst batches (``placements``), the nodes of a ``tree`` (``tree_calibration``).
6. How far one user moves them: ``Layout.device_sensitivity``.
7. With fair coins four tails are enough: ``fast_slope``.
8. Coins of bias 1/4 contain fair ones: ``sure_coins``.

``calibration`` searches the fewest bits that are proved. Proof: docs/guarantees.md.
"""
