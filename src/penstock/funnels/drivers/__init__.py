"""Properties and events that go with a loss after a step."""
