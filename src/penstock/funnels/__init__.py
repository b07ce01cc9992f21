"""Goals and funnels. Each package imports only those above it in this list:

definitions     the language of a funnel: matches, filters, steps, revisions
goals           matches with a name
saved           saved funnels and their revisions
statements      a funnel as SQL; knows neither goals nor saved funnels
queries         the steps of a funnel query, from the request to rows and their provenance
outcomes        stored outcomes of units, which answer queries instead of events
pipeline        runs the steps of a query
results         reports, previews and exports
comparisons, insights, units
                cohorts compared; trends, times and next events; lists and traces of units.
                None imports another
"""
