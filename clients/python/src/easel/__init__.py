"""A robust client of Easel: it orders paid renders once, watches them, and downloads their files whole.

The names of the contract are here too: easel.State.STATE_SUCCEEDED is easel.STATE_SUCCEEDED. Their own
package is easel.v1. For asyncio take connect and Client from easel.aio.
"""

from easel.client import Client as Client
from easel.client import connect as connect
from easel.errors import DamagedError as DamagedError
from easel.errors import FailedError as FailedError
from easel.errors import details as details
from easel.errors import order_outcome as order_outcome
from easel.errors import reason as reason
from easel.errors import retry_delay as retry_delay
from easel.v1 import *
