"""Conditional randomized response: what planner, certificate and estimates share."""
