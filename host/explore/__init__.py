"""Sweeps over configurations of one head: estimated, simulated, placed and compared.

`space` says which points there are, `point` what one of them is, `outcome` what is known of it.
`measure` and `quality` compute that, anywhere; `workers` runs them on all cores or a cluster and
`sweep` in their order. `table`, `csv_file`, `charts`, `figures` and `report` show it.
"""
