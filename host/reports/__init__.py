"""What commands show of a run: figures, tables, JSON, pictures."""
