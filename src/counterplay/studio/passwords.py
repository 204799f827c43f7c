"""Passwords of admins: argon2id, slow on purpose (about 0.2 s), so never on the event loop."""

from __future__ import annotations

import threading

from counterplay.studio.errors import Refused

SHORTEST, LONGEST = 10, 200
_at_once = threading.Semaphore(2)  # each check takes 64 MiB


def hash_password(password: str) -> str:
    """Return what is stored of a password."""
    from argon2 import PasswordHasher

    if not SHORTEST <= len(password) <= LONGEST:
        raise Refused(f"A password needs {SHORTEST} to {LONGEST} characters.", "password")
    with _at_once:
        return PasswordHasher().hash(password)


def check_password(stored: str | None, password: str) -> bool:
    """Whether a password is right; without a stored one it takes as long and is wrong."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    with _at_once:
        try:
            right = PasswordHasher().verify(stored or _NOBODY, password[:LONGEST])
        except (VerificationError, InvalidHashError):
            return False
    return right and stored is not None


_NOBODY = (
    "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA"
    "$kAqz1fyxTP1zLPEkmMfUzLvpRAcTwPTmVMIWz7yQLDM"
)
