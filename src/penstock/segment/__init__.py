"""Implements the tracking protocol of Segment and RudderStack, so that their own clients can be
used.
"""
