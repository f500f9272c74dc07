"""The fire drill: a node fails under the reference job, and everything that should follow is watched and judged.

Each stage is read back from the system that did it: the API's history of repairs, the notices that AutoClusters sends,
Nodes, pods and events of Kubernetes, Slurm, and the job's own run folder. What was seen is kept, and stages, verdict
and report are made of that alone.

* `observations`   what was seen: one kind of thing, kept as lines of JSON
* `stages`, `losses`, `verdict`, `timing`   from there to the verdict: pure
* `scenarios`      the table of what can be drilled
* `report`, `picture`   the report as text, JSON, PNG and HTML
* `site`, `streams`, `reading`, `receiver`   the systems that are asked
* `deeds`          what makes things fail
* `conduct`        one drill from its beginning to its end
* `room`           what a drill leaves on this machine, and its removal
"""
