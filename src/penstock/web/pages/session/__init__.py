"""Pages: start page, log-in and sign-up."""
