"""A robust client for Easel. It orders each paid render once, watches it, and verifies downloaded files.

Client is the client for threads, and aio.Client is the client for asyncio. The module v1 contains the contract's messages.
"""

from easel_grpc import aio as aio
from easel_grpc import v1 as v1
from easel_grpc.attempts import Limits as Limits
from easel_grpc.client import Client as Client
from easel_grpc.client import Watch as Watch
from easel_grpc.connection import __version__ as __version__
from easel_grpc.errors import BudgetExceeded as BudgetExceeded
from easel_grpc.errors import ContentChanged as ContentChanged
from easel_grpc.errors import DailyCapReached as DailyCapReached
from easel_grpc.errors import Damaged as Damaged
from easel_grpc.errors import Error as Error
from easel_grpc.errors import FieldViolation as FieldViolation
from easel_grpc.errors import IdempotencyKeyReused as IdempotencyKeyReused
from easel_grpc.errors import InsufficientBalance as InsufficientBalance
from easel_grpc.errors import InvalidRequest as InvalidRequest
from easel_grpc.errors import NoContent as NoContent
from easel_grpc.errors import NotFound as NotFound
from easel_grpc.errors import NotReady as NotReady
from easel_grpc.errors import OrderExpired as OrderExpired
from easel_grpc.errors import OutcomeUnknown as OutcomeUnknown
from easel_grpc.errors import PermissionDenied as PermissionDenied
from easel_grpc.errors import PriceAboveLimit as PriceAboveLimit
from easel_grpc.errors import RenderFailed as RenderFailed
from easel_grpc.errors import ServerFault as ServerFault
from easel_grpc.errors import Timeout as Timeout
from easel_grpc.errors import Unauthenticated as Unauthenticated
from easel_grpc.errors import Unavailable as Unavailable
from easel_grpc.values import Account as Account
from easel_grpc.values import Budget as Budget
from easel_grpc.values import BudgetWindow as BudgetWindow
from easel_grpc.values import Event as Event
from easel_grpc.values import FileResult as FileResult
from easel_grpc.values import InputField as InputField
from easel_grpc.values import InputFieldType as InputFieldType
from easel_grpc.values import Heartbeat as Heartbeat
from easel_grpc.values import Model as Model
from easel_grpc.values import Order as Order
from easel_grpc.values import OutputKind as OutputKind
from easel_grpc.values import Quote as Quote
from easel_grpc.values import Render as Render
from easel_grpc.values import State as State
from easel_grpc.values import UpstreamCondition as UpstreamCondition
from easel_grpc.values import UsageDimension as UsageDimension
from easel_grpc.values import UsageRow as UsageRow
from easel_grpc.values import WatchUntil as WatchUntil
