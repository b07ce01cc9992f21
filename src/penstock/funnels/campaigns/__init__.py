"""The attribution report: traffic and a funnel's results by source, medium, campaign or link."""
