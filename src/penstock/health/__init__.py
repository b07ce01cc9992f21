"""Whether this node is alive and ready, for service managers and load balancers."""
