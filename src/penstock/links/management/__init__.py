"""Managing links: creating, listing, disabling and enabling them, and QR codes."""
