"""Code that every room shares: errors, IDs, time, paging, scalar values. Imports no other room."""
