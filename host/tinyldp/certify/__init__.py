"""What exactly does a Task give away: certificates, computed from the integers that run."""
