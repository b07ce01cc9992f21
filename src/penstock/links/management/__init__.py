"""Managing links: create, list, disable, enable, QR codes."""
