"""The actor: what happens in Slurm when a node fails, in a Slurm cluster that runs on Kubernetes by Slinky's operator.

A cordon alone only drains: the job runs on, on the broken node, and the disruption budget of busy workers then blocks
the eviction. In Crusoe Managed Slurm, Crusoe's own operator ends that; here this program does. It runs in the cluster,
two of it with one leader, from a stock Python image, so it needs nothing but Python's own library.

Every rule is a pure function from what is seen (`state`) to what is to be done (`actions`):

* `faults`        a node fails: drain it, keep the place of its jobs, requeue them, once for each event
* `places`        the reservations that keep those places, from the failure to the next start
* `launches`      nodes on which jobs do not start, and jobs that Slurm holds because of it
* `ownership`     who drained a node, and which drains end when the node has been replaced
* `notices`       ends and requeues of jobs that somebody wants to be told, once for each
* `topology`      where in the network a node is, told before its worker starts

`look` puts them together, `perform` does what they say, `kubernetes` and `slurm` speak to the two APIs, `lease` elects
the leader, and `notify` sends notices to a webhook. What has to outlive this program is kept where it belongs:
annotations of the Node, the node's Extra and the job's AdminComment in Slurm, and a ConfigMap for notices.
"""
