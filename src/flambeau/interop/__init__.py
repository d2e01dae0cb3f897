"""Ways to other programs: each a submodule, imported when it is needed."""
