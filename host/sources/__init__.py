"""Where weights come from: one file a kind of model file."""
