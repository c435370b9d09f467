"""Files: their bytes, headers and arrays, and output that is complete or not there."""
