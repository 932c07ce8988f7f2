"""Run the test functions of the module named first, on any Python: a line for each."""

import sys

try:
    from traceback import print_exc

    def print_exception(error):
        print_exc(None, sys.stdout)
except ImportError:
    from sys import print_exception

module = __import__(sys.argv[1])
for name in dir(module):
    if name.startswith("test_"):
        try:
            getattr(module, name)()
            print("= ok", name)
        except Exception as error:
            print("= failed", name)
            print_exception(error)
