"""Pages for people: server-rendered, self-contained, without a request to anywhere else."""
