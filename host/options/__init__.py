"""Options that commands share: the hardware, the memory, what is run."""
