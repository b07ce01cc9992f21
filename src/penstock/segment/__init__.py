"""The tracking protocol of Segment and RudderStack, for their unmodified clients."""
