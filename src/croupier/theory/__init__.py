"""The paper's formulas as functions; constants hidden in O and Theta are 1 (MATH 1)."""
