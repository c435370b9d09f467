"""What an accelerator returned, compared with the golden model."""
