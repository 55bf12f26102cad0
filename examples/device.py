"""Users' devices against a running deployment: python examples/device.py deployment 20."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import numpy as np

from croupier.service import Device, DeviceSettings
from croupier.service.keys.keyring import Keyring
from croupier.service.messages.account_tokens import issue_token

where = Path(sys.argv[1] if len(sys.argv) > 1 else "deployment")
users = int(sys.argv[2]) if len(sys.argv) > 2 else 20
if not where.exists():
    print(f"There is no {where}: make one with `croupier init`, as the README shows.")
    sys.exit()

settings = DeviceSettings.of_deployment(where)  # an app has these values built in
passphrase = (where / "issuer" / "passphrase").read_text().strip().encode()
issuer = Keyring.open(where / "issuer" / "keys", "issuer", passphrase)  # at the app's own sign-in
rng = np.random.default_rng()
for _ in range(users):
    account = secrets.token_bytes(32)  # whoever the app's own sign-in says this is
    token = issue_token(settings.plan_id, account, issuer.signer)
    home = where / "devices" / account.hex()[:16]
    with Device(settings, account, home, account_token=token) as device:
        model = device.refresh()
        arms = rng.uniform(-0.5, 0.5, size=(4, 3))
        ticket = device.choose(arms)
        device.reward(ticket, float(rng.random() < 0.5 + arms[ticket.arm, 0]))
        outcome = device.flush()
        print(f"model {model.version}, arm {ticket.arm}: {outcome.value}")
