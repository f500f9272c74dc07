"""The explicit provider of a stack."""

from __future__ import annotations

import pulumi

from crusoe.resources.base import PACKAGE


class Provider(pulumi.ProviderResource):
    """Where the stack's resources live; recorded in its state. Keys come from the environment or `~/.crusoe/config`.

    Args:
        resource_name: the resource's name in the program.
        project: name or id of the project.
        endpoint: address of the API; Crusoe's own when left out.
        opts: resource options.
    """

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        project: pulumi.Input[str],
        endpoint: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register the provider."""
        super().__init__(PACKAGE, resource_name, {"endpoint": endpoint, "project": project}, opts)
