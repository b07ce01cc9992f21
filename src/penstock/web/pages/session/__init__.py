"""Pages for the start, log-in and sign-up."""
