"""AutoClusters of the local cloud: a fault on a node is detected, told, and the node is replaced, as far as that is on.

The published sequence, step by step: a fault is seen (after a delay that can be set) -> it is told to the webhook ->
where the issue's action is OFF nothing more happens -> the node is marked and cordoned -> a pod with the opt-out label
stops the repair -> its pods are evicted, which a disruption budget may hold up for the grace at most -> the VM is
replaced from spare capacity, with an operation in the history -> the outcome is told. Nothing is done in Slurm: where
Slurm runs on Slinky, that is the platform's own business.

* `incidents`  a fault and how far its repair is, in the state file
* `decisions`  an incident and what is seen of its node in, the next step out: pure
* `nodes`      what is written to a Node, and what is read of it and its pods: pure
* `notices`    what is told, and the webhook that it is told to
* `engine`     the loop of one cluster
"""
