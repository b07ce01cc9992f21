"""The tracking protocol of Segment and RudderStack. Their clients work unmodified."""
