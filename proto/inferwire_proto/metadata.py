"""What the metadata of calls says by names of our own. Those that end a call are beside the errors (`errors`)."""

from __future__ import annotations

SESSION_METADATA = "inferwire-session"
"""The entry that names the session a call belongs to."""
