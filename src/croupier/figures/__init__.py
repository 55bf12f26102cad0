"""Figures as data, and the modules that draw and write them."""
