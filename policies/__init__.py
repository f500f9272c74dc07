"""A policy pack for GPU platforms on Crusoe Cloud: what is unsafe is refused before it exists.

Works on any Pulumi program that uses the crusoe provider or pulumi-kubernetes. Each topic is one module of small
policies; what they judge by are the pure functions of `crusoe.rules`. docs/policies.md is made from what stands here.
"""
