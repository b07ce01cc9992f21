"""The quarantine: stores, lists and replays events that the intake or the warehouse refused."""
