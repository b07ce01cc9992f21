"""Code that all rooms share: errors, IDs, time, paging, scalar values. It imports no other room."""
