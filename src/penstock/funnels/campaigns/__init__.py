"""The attribution report: traffic by source, medium, campaign or link, with a funnel's results."""
