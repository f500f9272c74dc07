"""Names that others gave, each with its source, and those that the actor made up itself."""

# Node annotations and pod labels of Slinky 1.2.1.
CORDON_REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
"""Why a node is cordoned; the operator makes it the reason of Slurm's drain, with its own prefix."""
CORDON_REASON_LENGTH = 256
HOSTNAME_LABEL = "nodeset.slinky.slurm.net/pod-hostname"
"""Label of a worker's pod with the name of its node in Slurm."""
WORKER_SELECTOR = "app.kubernetes.io/name=slurmd"
NODE_SET_LABEL = "app.kubernetes.io/instance"
TOPOLOGY = "topology.slinky.slurm.net/spec"
"""Node annotation with the place in Slurm's topology, copied to a worker's pod when it is bound."""

# Labels of nodes in Crusoe Managed Kubernetes (its cloud controller), and of NVIDIA's GPU operator.
INSTANCE_LABEL = "crusoe.ai/instance.id"
POOL_LABEL = "crusoe.ai/nodepool.name"
PARTITION_LABEL = "crusoe.ai/ib.partition.id"
POD_LABEL = "crusoe.ai/pod.id"
CLIQUE_LABEL = "nvidia.com/gpu.clique"

REMEDIATION = "crusoe.ai/remediation"
"""How taints, labels and annotations begin by which a node says that it is being repaired.

Crusoe's `cmk-node-remediation` (solutions library, 2026-08-21) uses labels and taints under `crusoe.ai/remediation.*`.
That AutoClusters marks its nodes in the same way is invented: its documentation does not say how it does.
"""

USUAL_CONDITIONS = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""Conditions of a Node that its kubelet and Kubernetes themselves give; all others are somebody's finding."""

# The actor's own.
HANDLED = "actor.gpuplatform/handled"
"""Node annotation: the last event that was answered. It goes with the Node, as does the fault."""
RESERVATION = "actor-"
"""Reservations that keep a job's place are called after it."""

OPERATOR_PREFIX = "slurm-operator: "
"""Slinky's operator lifts drains with this prefix when the node is uncordoned, and no others."""
HEALTH_PREFIX = "health: "
ACTOR_PREFIX = "actor: "

SLURM_REASONS = (
    "Not responding",
    "Kill task failed",
    "Prolog error",
    "Epilog error",
    "Prolog failed",
    "batch job complete failure",
    "Node unexpectedly rebooted",
    "Low RealMemory",
    "Low TmpDisk",
    "Low socket",
    "Low CPUs",
    "gres/",
    "Reboot ASAP",
)
"""How the reasons begin that Slurm's daemons write themselves (slurmctld of 26.05)."""
