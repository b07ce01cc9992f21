"""Implements the tracking protocol of Segment and RudderStack, for use with their own clients."""
