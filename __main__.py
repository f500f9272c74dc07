"""The whole platform as one Pulumi program: load the settings, build the parts, export what others may rely on."""

import asyncio
import gc

import pulumi

from components.adoption import NAMESPACE, take_over
from components.configuration import load
from components.platform import Platform

# A program lives for seconds and keeps nearly all that it makes: looking for garbage often costs, and finds none.
gc.set_threshold(100_000, 50, 50)

take_over(pulumi.Config(NAMESPACE))
platform = Platform("platform", load(), stack=pulumi.get_stack(), secrets=pulumi.Config().require_secret)
for output, value in platform.outputs.items():
    pulumi.export(output, value)

# Lets the registrations begin before the program ends. The SDK then waits for them one by one; otherwise it looks at
# every open output each time that one comes, and the time for the pools grows with the square of their number.
pulumi.run(lambda: asyncio.sleep(0))
