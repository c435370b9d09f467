"""Jobs on the accelerator: its registers, and what a job reads and writes in memory."""
