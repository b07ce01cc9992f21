"""Internal traffic: filters of a workspace whose entries reports leave out."""
