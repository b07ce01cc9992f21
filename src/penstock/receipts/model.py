"""Plain constants of receipts. No I/O."""

FORMAT = 2
"""Version of the document that a receipt signs. Form 1 has fewer figures."""
MAX_COHORTS = 50
"""Maximum number of cohorts in a receipt, those with most units."""
MAX_RECEIPTS = 500
"""Maximum number of receipts in a workspace."""
MAX_SUMS = 1_000
"""Maximum number of sums in a receipt, one for each website and day."""
MAX_FILE_BYTES = 2 * 1024 * 1024
"""Maximum size of the file of a receipt, in bytes."""
