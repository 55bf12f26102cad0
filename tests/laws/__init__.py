"""Laws that simulations, devices and certificates keep, each held against an independent one."""
