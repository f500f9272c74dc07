"""A team's environments: a new one from what the cloud offers, and two compared in terms of the platform.

`offer` asks the cloud; `choice` (what a new stack gets) and `promotion` (how two stacks differ) are pure; `stack_file`
reads and writes `Pulumi.<stack>.yaml`. Whatever is written has gone through the settings of the whole platform, so what
`make new-stack` makes is what `up` takes.
"""
