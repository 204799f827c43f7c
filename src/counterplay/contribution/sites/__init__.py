"""From the tables of sites to a plan: measure with few fits, keep the uncertainty, plan, hand over.

Read in this order: ``reading`` (tables in), ``scoring`` and ``measuring`` (fits), ``points`` (what
may leave a site), ``fitting`` and ``curves`` (effective rows with bands), ``ray`` (one common
share), ``robust`` and ``plan`` (plans that hold with confidence), ``flower_project``.
"""
