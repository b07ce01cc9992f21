"""The cohorts of a breakdown compared: which of them converts better, and how sure that is."""
