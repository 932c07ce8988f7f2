"""tinyldp: local differential privacy on streams, the host's half."""
