"""Health checks of this node, for service managers and load balancers."""
