"""Putting the device package and a Task on a board."""
