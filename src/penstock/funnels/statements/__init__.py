"""The SQL of funnels: how events are matched, folded into counted units, and grouped into a report or asked for single units."""
