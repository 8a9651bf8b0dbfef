"""A robust client of Easel: it orders paid renders once, watches them, and downloads their files whole.

Client is for threads, aio.Client for asyncio. The messages of the contract are in v1.
"""

from easel import aio as aio
from easel import v1 as v1
from easel.attempts import Limits as Limits
from easel.client import Client as Client
from easel.client import Watch as Watch
from easel.connection import __version__ as __version__
from easel.errors import BudgetExceeded as BudgetExceeded
from easel.errors import ContentChanged as ContentChanged
from easel.errors import DailyCapReached as DailyCapReached
from easel.errors import Damaged as Damaged
from easel.errors import Error as Error
from easel.errors import FieldViolation as FieldViolation
from easel.errors import IdempotencyKeyReused as IdempotencyKeyReused
from easel.errors import InsufficientBalance as InsufficientBalance
from easel.errors import InvalidRequest as InvalidRequest
from easel.errors import NoContent as NoContent
from easel.errors import NotFound as NotFound
from easel.errors import NotReady as NotReady
from easel.errors import OutcomeUnknown as OutcomeUnknown
from easel.errors import PermissionDenied as PermissionDenied
from easel.errors import PriceAboveLimit as PriceAboveLimit
from easel.errors import RenderFailed as RenderFailed
from easel.errors import ServerFault as ServerFault
from easel.errors import Timeout as Timeout
from easel.errors import Unauthenticated as Unauthenticated
from easel.errors import Unavailable as Unavailable
from easel.values import Account as Account
from easel.values import Budget as Budget
from easel.values import BudgetWindow as BudgetWindow
from easel.values import FileResult as FileResult
from easel.values import InputField as InputField
from easel.values import InputFieldType as InputFieldType
from easel.values import Heartbeat as Heartbeat
from easel.values import Model as Model
from easel.values import Order as Order
from easel.values import OutputKind as OutputKind
from easel.values import Quote as Quote
from easel.values import Render as Render
from easel.values import State as State
from easel.values import UpstreamCondition as UpstreamCondition
from easel.values import UsageDimension as UsageDimension
from easel.values import UsageRow as UsageRow
from easel.values import WatchUntil as WatchUntil
