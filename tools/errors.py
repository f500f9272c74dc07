"""What can go wrong while the toolchain is fetched. Every message is one or two sentences that a person can act on."""


class ToolError(Exception):
    """A tool could not be had; `str()` says which, why, and what to do."""


class ToolMissingError(ToolError):
    """No way led to the tool: it is not on this machine, could not be downloaded and could not be built."""


class DownloadError(ToolError):
    """The official download was not possible; the next way is tried."""


class BuildError(ToolError):
    """The Go build was not possible; there is no way after it."""
