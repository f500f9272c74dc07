"""The exporter: what the platform knows of repairs, jobs and capacity, as metrics, and how long recoveries take.

It runs in the cluster and asks Crusoe's API (with a key that can only read), slurmrestd and the API server, every few
seconds, and changes nothing anywhere. What a source has not said in its last polls is no metric: a value that nobody
vouches for is neither kept nor taken for zero. It keeps nothing either: repairs come from AutoClusters' own history,
recoveries from the notes of jobs in Slurm, so that another exporter gives the same figures.

* `figures`    what is measured of a recovery, from which moment to which: also the drill's definitions
* `recovery`   the moments of each recovery, found in the notes of jobs and in AutoClusters' history
* `repairs`    AutoClusters' repairs, from its history and from marks of nodes
* `sources`    what each source says, as plain values; `crusoe_api` and `read` get it
* `metrics`    every metric: name, kind, labels, unit, meaning, source
* `series`     from what the sources say to values of metrics
* `poll`       asks the sources again and again, each in a thread of its own, and forgets what is old
* `serve`      OpenMetrics over HTTP, by Prometheus' own client library
* `settings`   what the platform tells it
* `docs`       docs/metrics.md

It shares with the actor how Slurm and Kubernetes are asked and read, and nothing that writes.
"""
