"""Layers, containers, losses and what they need: `import flambeau.nn as nn`."""
