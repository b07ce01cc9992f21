"""Goals and funnels. Each package imports only packages above it in this list:

definitions     the language of funnels: matches, filters, steps, revisions
goals           named matches
segments        named filters on entries
internal_traffic
                filters on entries that reports leave out
saved           saved funnels and their revisions
statements      funnels as SQL, without goals or saved funnels
queries         the shared query path, from a request to rows and their provenance
outcomes        stored outcomes of units, which answer queries instead of events
pipeline        runs the steps of a query
results         reports, previews and exports
comparisons, insights, units
                cohort comparisons; trends, times and next events; lists and traces of units.
                They do not import each other.
"""
