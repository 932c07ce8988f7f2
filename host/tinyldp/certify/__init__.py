"""What exactly does a Task give away: certificates, computed from the integers that run.

`certify` makes a Certificate; its modules have each mechanism's delta(epsilon) as
functions, in rationals, for who plans. Source of the mechanisms: Stateful Switch
(RanSwitch, StaSwitch), LDP-IDS and what it builds on (GRR, OUE, OLH); JitterSort is
tinyldp's own.
"""

from tinyldp.callable import make_callable
from tinyldp.certify.certificate import Certificate
from tinyldp.certify.files import certificate_path, load_certificate, write_certificate
from tinyldp.certify.issue import certify
from tinyldp.certify.text import text_certificate

__all__ = [
    "Certificate",
    "certificate_path",
    "certify",
    "load_certificate",
    "text_certificate",
    "write_certificate",
]

make_callable(__name__)
