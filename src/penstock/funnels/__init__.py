"""Goals and funnels: what is asked (`definitions`), how the engine is asked (`statements`), what is answered (`results`).

Each imports only those before it:

    definitions     the language: matches, filters, steps, revisions
    goals           matches with a name
    saved           saved funnels
    statements      a funnel as SQL; knows neither goals nor saved funnels
    results         the report, and the way to the engine and back that every answer takes
    comparisons, insights, units
                    cohorts compared; trends, times and next events; lists and traces of single units. None knows another
"""
