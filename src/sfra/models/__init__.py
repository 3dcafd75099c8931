"""Networks to audit: backbones, training, recipes, model directories."""
