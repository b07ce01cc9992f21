"""Webhooks of payment providers, from a signed body to an event. Neighbours use `service`."""
