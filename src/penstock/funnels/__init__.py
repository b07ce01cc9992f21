"""Goals and funnels. Each part imports only parts above it in this list:

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
comparisons, units, campaigns, trends, timing, next_events, flows
                cohort comparisons; lists and traces of units; the attribution report; a funnel by
                time of entry; times between steps; events after a step; paths of events. They do
                not import each other.
drivers, periods, saved_cohorts
                what goes with a loss; two periods; saved visitors
compared_values the value of a property whose units changed otherwise than all others
verdicts        reports in sentences
questions       the table of all questions about a saved funnel
"""
