"""Starting, asking and mending a role."""
