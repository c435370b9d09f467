"""Sweeps over configurations of one head: estimated, simulated, placed and compared.

`space` says which points there are, `point` what one of them is, `outcome` what is known of it.
`area`, `measure`, `quality` and `placement` compute that on whatever machine, `store` keeps it;
`workers` runs them on all cores or a cluster, and `sweep` in the order of a `plan`. `table`,
`csv_file`, `figures` and `report` show it, the latter two by the same `charts`. `suggest` looks for
the best point on a board.
"""
