"""Single counted units: who is behind a number, and what was decided on each event of one of them."""
