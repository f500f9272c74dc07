"""A Python language host for Pulumi, standing in where the official one can't be had.

Run as a folder (`python -I tools/language_host ENGINE_ADDRESS`) under an interpreter that has the Pulumi SDK. It
imports nothing else of this project; program.py and policy.py run under interpreters that do not have it at all.
"""
