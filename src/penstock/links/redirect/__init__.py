"""The public side of links: redirects and landing pages."""
