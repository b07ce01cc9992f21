"""Payment providers: signing secrets, and signed webhooks that become events."""
