"""The fault matrix: every resource kind, in every operation, under every fault, judged by what the cloud then holds."""
