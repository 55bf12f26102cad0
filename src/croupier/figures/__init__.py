"""The figures of the paper as data, and one module that draws them."""
