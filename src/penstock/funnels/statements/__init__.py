"""The SQL of funnels: matching events, folding them into units, reports, and single units."""
