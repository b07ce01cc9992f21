"""Keys that earlier versions stored. They move to the event keys while the service runs."""
