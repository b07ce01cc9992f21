"""Answers that may take long: given up when the client goes away, or made as jobs. Neighbours use `answered` and `records`."""
