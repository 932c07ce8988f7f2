# Freezes the device and protocol packages into a firmware, with MicroPython's build:
#     make BOARD=... FROZEN_MANIFEST=/path/to/device/manifest.py
package("tinyldp_device", base_path=".")  # noqa: F821  # type: ignore
package("tinyldp_protocol", base_path="../protocol")  # noqa: F821  # type: ignore
