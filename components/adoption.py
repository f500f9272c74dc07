"""Taking over what exists in the cloud: the program's own resources, imported instead of created.

Owns the configuration key `adoption:ids`, which maps logical names to ids; `python -m environments adopt` writes it,
and docs/runbooks/adopt.md has the way. An `up` reads such an object, compares it with the settings and records it. A
difference is an update or a replacement like any other, so while the key is there what it names is protected: settings
that are wrong must not cost the object. For what is recorded already it changes nothing else, so it may be left in.
"""

from collections.abc import Mapping
from typing import cast

import pulumi

NAMESPACE, IDS = "adoption", "ids"


def take_over(config: pulumi.Config) -> None:
    """Have the resources that the configuration names imported; to be called before anything is declared.

    Raises:
        pulumi.RunError: the configuration is no mapping from names to ids.
    """
    try:
        found: object = config.get_object(IDS)
    except pulumi.ConfigTypeError:
        found = "no JSON"
    if found is None:
        return
    ids = cast("Mapping[object, object]", found) if isinstance(found, Mapping) else {0: 0}
    if not all(isinstance(each, str) for pair in ids.items() for each in pair):
        raise pulumi.RunError(
            f"{NAMESPACE}:{IDS} is no map from resources' names to ids. Take it out with `pulumi config rm "
            f"{NAMESPACE}:{IDS}`, and let `python -m environments adopt` write it anew."
        )
    named = cast("Mapping[str, str]", ids)

    def imported(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if args.name not in named:
            return None
        given = pulumi.ResourceOptions(import_=named[args.name], protect=True)
        return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, given))

    pulumi.runtime.register_stack_transformation(imported)
