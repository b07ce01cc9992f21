"""Invitations to join a workspace."""
