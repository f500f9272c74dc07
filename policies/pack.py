"""All policies of the pack. A new topic is one module and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies import (
    autoclusters,
    cost,
    exemptions,
    exposure,
    fabric,
    gpu_pools,
    gpu_sharing,
    plain_secrets,
    slurm,
    state,
)
from policies.policy import Policy, ResourcePolicy, StackPolicy

NAME = "crusoe-gpu-platform"
TITLE = "GPU platforms on Crusoe Cloud"
VERSION = "0.1.0"
DESCRIPTION = "Refuses unsafe GPU platforms on Crusoe Cloud before they exist, and says how to put them right."

TOPICS: Mapping[str, Sequence[Policy]] = {
    "GPU pools": gpu_pools.POLICIES,
    "AutoClusters": autoclusters.POLICIES,
    "Exposure": exposure.POLICIES,
    "Slurm": slurm.POLICIES,
    "GPU sharing": gpu_sharing.POLICIES,
    "State": state.POLICIES,
    "Cost": cost.POLICIES,
    "Secrets": plain_secrets.POLICIES,
    "Fabric": fabric.POLICIES,
    "Exemptions": exemptions.POLICIES,
}

POLICIES = [policy for policies in TOPICS.values() for policy in policies]
BY_NAME: Mapping[str, Policy] = {policy.name: policy for policy in POLICIES}
RESOURCE_POLICIES = [policy for policy in POLICIES if isinstance(policy, ResourcePolicy)]
STACK_POLICIES = [policy for policy in POLICIES if isinstance(policy, StackPolicy)]
