"""The layouts: formulas, ranges, sensitivity."""
