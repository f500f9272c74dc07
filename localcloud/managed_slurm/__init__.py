"""Crusoe Managed Slurm on the local cloud: what stands between its REST API and the cluster behind it.

A Slurm cluster of the REST API (`localcloud.api.slurm_clusters`, `slurm_nodesets`) is backed by a CMK cluster of the
same name. Crusoe's operator keeps the two together; it is played here, from outside of the cluster.

* `records`      what the REST side asks of the cluster, and what it hears back
* `state`        Slurm clusters and node sets in the state file, and the states that the API answers
* `operator`     the loop: facts of the state file in, ready counts and addresses back into it
* `definitions`  the custom resources of slurm.crusoe.ai/v1alpha1 and their schemas
* `objects`      a Slurm cluster in, the objects of its Kubernetes cluster out: pure
* `slinky`       the same for Slinky's kinds, used where the cluster has them: pure
* `identities`   user and group ids: pure
* `reconcile`    one pass over a cluster's API server

`records`, `state` and `operator` belong to the server's start and import nothing of Kubernetes; the others are loaded
when the first Slurm cluster is made.

Worker, login and controller pods are made by Slinky's operator where its kinds are installed, and are plain
StatefulSets and a Deployment of the same names otherwise. Either way the pods carry the labels of `objects`, and a node
counts as ready when its worker pod is Ready. Nothing in this package knows who runs the pods.
"""
