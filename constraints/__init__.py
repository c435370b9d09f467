"""Boards: their facts and constraint files, a folder each; there is no code here."""
