"""Events in: validation, intake, shipping to the warehouse. Neighbours use `intake`, `shipper`, `service` and `model`."""
