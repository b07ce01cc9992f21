"""Events that were refused or that the warehouse does not take: kept, listed, replayed."""
