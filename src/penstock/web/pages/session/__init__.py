"""Pages for the start page, log-in and sign-up."""
