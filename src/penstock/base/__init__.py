"""Words every room shares: errors, ids, time, paging and scalar values. Imports nothing of ours."""
