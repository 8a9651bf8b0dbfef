# Code generated from proto/easel/v1 by make generate. DO NOT EDIT.
"""The contract of Easel: messages, enums, and a stub for each service."""

from easel_grpc.v1.account_pb2 import BudgetWindow as BudgetWindow
from easel_grpc.v1.account_pb2 import BUDGET_WINDOW_UNSPECIFIED as BUDGET_WINDOW_UNSPECIFIED
from easel_grpc.v1.account_pb2 import BUDGET_WINDOW_DAY as BUDGET_WINDOW_DAY
from easel_grpc.v1.account_pb2 import BUDGET_WINDOW_MONTH as BUDGET_WINDOW_MONTH
from easel_grpc.v1.account_pb2 import UsageDimension as UsageDimension
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_UNSPECIFIED as USAGE_DIMENSION_UNSPECIFIED
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_DAY as USAGE_DIMENSION_DAY
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_OWNER as USAGE_DIMENSION_OWNER
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_CALLER as USAGE_DIMENSION_CALLER
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_MODEL as USAGE_DIMENSION_MODEL
from easel_grpc.v1.account_pb2 import USAGE_DIMENSION_LABEL as USAGE_DIMENSION_LABEL
from easel_grpc.v1.account_pb2 import Account as Account
from easel_grpc.v1.account_pb2 import Budget as Budget
from easel_grpc.v1.account_pb2 import UsageRow as UsageRow
from easel_grpc.v1.account_service_pb2 import GetAccountRequest as GetAccountRequest
from easel_grpc.v1.account_service_pb2 import GetAccountResponse as GetAccountResponse
from easel_grpc.v1.account_service_pb2 import ListUsageRequest as ListUsageRequest
from easel_grpc.v1.account_service_pb2 import ListUsageResponse as ListUsageResponse
from easel_grpc.v1.account_service_pb2_grpc import AccountServiceServicer as AccountServiceServicer
from easel_grpc.v1.account_service_pb2_grpc import AccountServiceStub as AccountServiceStub
from easel_grpc.v1.account_service_pb2_grpc import add_AccountServiceServicer_to_server as add_AccountServiceServicer_to_server
from easel_grpc.v1.error_pb2 import ErrorReason as ErrorReason
from easel_grpc.v1.error_pb2 import ERROR_REASON_UNSPECIFIED as ERROR_REASON_UNSPECIFIED
from easel_grpc.v1.error_pb2 import INVALID_REQUEST as INVALID_REQUEST
from easel_grpc.v1.error_pb2 import UPSTREAM_INVALID_INPUT as UPSTREAM_INVALID_INPUT
from easel_grpc.v1.error_pb2 import INPUTS_TOO_LARGE as INPUTS_TOO_LARGE
from easel_grpc.v1.error_pb2 import REQUEST_TOO_LARGE as REQUEST_TOO_LARGE
from easel_grpc.v1.error_pb2 import REQUEST_BODY_TIMEOUT as REQUEST_BODY_TIMEOUT
from easel_grpc.v1.error_pb2 import CREDENTIAL_MISSING as CREDENTIAL_MISSING
from easel_grpc.v1.error_pb2 import CREDENTIAL_MALFORMED as CREDENTIAL_MALFORMED
from easel_grpc.v1.error_pb2 import CALLER_UNKNOWN as CALLER_UNKNOWN
from easel_grpc.v1.error_pb2 import UPSTREAM_CREDENTIAL_REJECTED as UPSTREAM_CREDENTIAL_REJECTED
from easel_grpc.v1.error_pb2 import UPSTREAM_FORBIDDEN as UPSTREAM_FORBIDDEN
from easel_grpc.v1.error_pb2 import MODEL_NOT_ALLOWED as MODEL_NOT_ALLOWED
from easel_grpc.v1.error_pb2 import GENERATION_NOT_FOUND as GENERATION_NOT_FOUND
from easel_grpc.v1.error_pb2 import MODEL_NOT_FOUND as MODEL_NOT_FOUND
from easel_grpc.v1.error_pb2 import NOT_FOUND as NOT_FOUND
from easel_grpc.v1.error_pb2 import INSUFFICIENT_BALANCE as INSUFFICIENT_BALANCE
from easel_grpc.v1.error_pb2 import PRICE_ABOVE_LIMIT as PRICE_ABOVE_LIMIT
from easel_grpc.v1.error_pb2 import BUDGET_EXCEEDED as BUDGET_EXCEEDED
from easel_grpc.v1.error_pb2 import API_KEY_DAILY_CAP as API_KEY_DAILY_CAP
from easel_grpc.v1.error_pb2 import IDEMPOTENCY_KEY_REUSED as IDEMPOTENCY_KEY_REUSED
from easel_grpc.v1.error_pb2 import SUBMISSION_IN_PROGRESS as SUBMISSION_IN_PROGRESS
from easel_grpc.v1.error_pb2 import SUBMISSION_OUTCOME_UNKNOWN as SUBMISSION_OUTCOME_UNKNOWN
from easel_grpc.v1.error_pb2 import GENERATION_ACTIVE as GENERATION_ACTIVE
from easel_grpc.v1.error_pb2 import ORDER_EXPIRED as ORDER_EXPIRED
from easel_grpc.v1.error_pb2 import CONTENT_NOT_READY as CONTENT_NOT_READY
from easel_grpc.v1.error_pb2 import NO_CONTENT as NO_CONTENT
from easel_grpc.v1.error_pb2 import READ_OFFSET_OUT_OF_RANGE as READ_OFFSET_OUT_OF_RANGE
from easel_grpc.v1.error_pb2 import CONTENT_INTERRUPTED as CONTENT_INTERRUPTED
from easel_grpc.v1.error_pb2 import CONTENT_CHANGED as CONTENT_CHANGED
from easel_grpc.v1.error_pb2 import RESUME_TOKEN_EXPIRED as RESUME_TOKEN_EXPIRED
from easel_grpc.v1.error_pb2 import UPSTREAM_RATE_LIMITED as UPSTREAM_RATE_LIMITED
from easel_grpc.v1.error_pb2 import UPSTREAM_UNAVAILABLE as UPSTREAM_UNAVAILABLE
from easel_grpc.v1.error_pb2 import UPSTREAM_REDIRECT_REFUSED as UPSTREAM_REDIRECT_REFUSED
from easel_grpc.v1.error_pb2 import UPSTREAM_CONTRACT_MISMATCH as UPSTREAM_CONTRACT_MISMATCH
from easel_grpc.v1.error_pb2 import UPSTREAM_MALFORMED_RESPONSE as UPSTREAM_MALFORMED_RESPONSE
from easel_grpc.v1.error_pb2 import LEDGER_UNAVAILABLE as LEDGER_UNAVAILABLE
from easel_grpc.v1.error_pb2 import ISSUER_UNAVAILABLE as ISSUER_UNAVAILABLE
from easel_grpc.v1.error_pb2 import OVERLOADED as OVERLOADED
from easel_grpc.v1.error_pb2 import STREAM_QUOTA_EXCEEDED as STREAM_QUOTA_EXCEEDED
from easel_grpc.v1.error_pb2 import READER_TOO_SLOW as READER_TOO_SLOW
from easel_grpc.v1.error_pb2 import SERVER_DRAINING as SERVER_DRAINING
from easel_grpc.v1.error_pb2 import STREAM_MAX_AGE as STREAM_MAX_AGE
from easel_grpc.v1.error_pb2 import ROUTE_NOT_FOUND as ROUTE_NOT_FOUND
from easel_grpc.v1.error_pb2 import METHOD_NOT_ALLOWED as METHOD_NOT_ALLOWED
from easel_grpc.v1.error_pb2 import UNSUPPORTED_MEDIA_TYPE as UNSUPPORTED_MEDIA_TYPE
from easel_grpc.v1.error_pb2 import PRECONDITION_FAILED as PRECONDITION_FAILED
from easel_grpc.v1.error_pb2 import HOST_NOT_ALLOWED as HOST_NOT_ALLOWED
from easel_grpc.v1.error_pb2 import CROSS_ORIGIN_REQUEST as CROSS_ORIGIN_REQUEST
from easel_grpc.v1.error_pb2 import CANCELLED as CANCELLED
from easel_grpc.v1.error_pb2 import DEADLINE_EXCEEDED as DEADLINE_EXCEEDED
from easel_grpc.v1.error_pb2 import INTERNAL as INTERNAL
from easel_grpc.v1.error_pb2 import UNIMPLEMENTED as UNIMPLEMENTED
from easel_grpc.v1.error_pb2 import INVALID_ARGUMENT as INVALID_ARGUMENT
from easel_grpc.v1.error_pb2 import RESOURCE_EXHAUSTED as RESOURCE_EXHAUSTED
from easel_grpc.v1.error_pb2 import UNAVAILABLE as UNAVAILABLE
from easel_grpc.v1.generation_pb2 import State as State
from easel_grpc.v1.generation_pb2 import STATE_UNSPECIFIED as STATE_UNSPECIFIED
from easel_grpc.v1.generation_pb2 import STATE_QUEUED as STATE_QUEUED
from easel_grpc.v1.generation_pb2 import STATE_RUNNING as STATE_RUNNING
from easel_grpc.v1.generation_pb2 import STATE_SUCCEEDED as STATE_SUCCEEDED
from easel_grpc.v1.generation_pb2 import STATE_FAILED as STATE_FAILED
from easel_grpc.v1.generation_pb2 import STATE_REFUNDED as STATE_REFUNDED
from easel_grpc.v1.generation_pb2 import STATE_DELETED as STATE_DELETED
from easel_grpc.v1.generation_pb2 import STATE_UNRECOGNIZED as STATE_UNRECOGNIZED
from easel_grpc.v1.generation_pb2 import Generation as Generation
from easel_grpc.v1.generation_pb2 import FileResult as FileResult
from easel_grpc.v1.generation_pb2 import TextResult as TextResult
from easel_grpc.v1.generation_pb2 import Quote as Quote
from easel_grpc.v1.generation_service_pb2 import WatchUntil as WatchUntil
from easel_grpc.v1.generation_service_pb2 import WATCH_UNTIL_UNSPECIFIED as WATCH_UNTIL_UNSPECIFIED
from easel_grpc.v1.generation_service_pb2 import WATCH_UNTIL_TERMINAL as WATCH_UNTIL_TERMINAL
from easel_grpc.v1.generation_service_pb2 import WATCH_UNTIL_SETTLED as WATCH_UNTIL_SETTLED
from easel_grpc.v1.generation_service_pb2 import UpstreamCondition as UpstreamCondition
from easel_grpc.v1.generation_service_pb2 import UPSTREAM_CONDITION_UNSPECIFIED as UPSTREAM_CONDITION_UNSPECIFIED
from easel_grpc.v1.generation_service_pb2 import UPSTREAM_CONDITION_HEALTHY as UPSTREAM_CONDITION_HEALTHY
from easel_grpc.v1.generation_service_pb2 import UPSTREAM_CONDITION_THROTTLED as UPSTREAM_CONDITION_THROTTLED
from easel_grpc.v1.generation_service_pb2 import UPSTREAM_CONDITION_UNREACHABLE as UPSTREAM_CONDITION_UNREACHABLE
from easel_grpc.v1.generation_service_pb2 import UPSTREAM_CONDITION_CREDENTIAL_REJECTED as UPSTREAM_CONDITION_CREDENTIAL_REJECTED
from easel_grpc.v1.generation_service_pb2 import StreamClosingReason as StreamClosingReason
from easel_grpc.v1.generation_service_pb2 import STREAM_CLOSING_REASON_UNSPECIFIED as STREAM_CLOSING_REASON_UNSPECIFIED
from easel_grpc.v1.generation_service_pb2 import STREAM_CLOSING_REASON_DRAINING as STREAM_CLOSING_REASON_DRAINING
from easel_grpc.v1.generation_service_pb2 import STREAM_CLOSING_REASON_MAX_AGE as STREAM_CLOSING_REASON_MAX_AGE
from easel_grpc.v1.generation_service_pb2 import ContentSource as ContentSource
from easel_grpc.v1.generation_service_pb2 import CONTENT_SOURCE_UNSPECIFIED as CONTENT_SOURCE_UNSPECIFIED
from easel_grpc.v1.generation_service_pb2 import CONTENT_SOURCE_CATALOG as CONTENT_SOURCE_CATALOG
from easel_grpc.v1.generation_service_pb2 import CONTENT_SOURCE_COPY as CONTENT_SOURCE_COPY
from easel_grpc.v1.generation_service_pb2 import QuoteGenerationRequest as QuoteGenerationRequest
from easel_grpc.v1.generation_service_pb2 import QuoteGenerationResponse as QuoteGenerationResponse
from easel_grpc.v1.generation_service_pb2 import CreateGenerationRequest as CreateGenerationRequest
from easel_grpc.v1.generation_service_pb2 import CreateGenerationResponse as CreateGenerationResponse
from easel_grpc.v1.generation_service_pb2 import GetGenerationRequest as GetGenerationRequest
from easel_grpc.v1.generation_service_pb2 import GetGenerationResponse as GetGenerationResponse
from easel_grpc.v1.generation_service_pb2 import ListGenerationsRequest as ListGenerationsRequest
from easel_grpc.v1.generation_service_pb2 import GenerationFilter as GenerationFilter
from easel_grpc.v1.generation_service_pb2 import ListGenerationsResponse as ListGenerationsResponse
from easel_grpc.v1.generation_service_pb2 import WaitGenerationRequest as WaitGenerationRequest
from easel_grpc.v1.generation_service_pb2 import WaitGenerationResponse as WaitGenerationResponse
from easel_grpc.v1.generation_service_pb2 import WatchGenerationRequest as WatchGenerationRequest
from easel_grpc.v1.generation_service_pb2 import WatchGenerationResponse as WatchGenerationResponse
from easel_grpc.v1.generation_service_pb2 import GenerationUpdate as GenerationUpdate
from easel_grpc.v1.generation_service_pb2 import Heartbeat as Heartbeat
from easel_grpc.v1.generation_service_pb2 import StreamClosing as StreamClosing
from easel_grpc.v1.generation_service_pb2 import WatchGenerationsRequest as WatchGenerationsRequest
from easel_grpc.v1.generation_service_pb2 import WatchGenerationsResponse as WatchGenerationsResponse
from easel_grpc.v1.generation_service_pb2 import CaughtUp as CaughtUp
from easel_grpc.v1.generation_service_pb2 import WatchEventsRequest as WatchEventsRequest
from easel_grpc.v1.generation_service_pb2 import EventFilter as EventFilter
from easel_grpc.v1.generation_service_pb2 import WatchEventsResponse as WatchEventsResponse
from easel_grpc.v1.generation_service_pb2 import Event as Event
from easel_grpc.v1.generation_service_pb2 import DownloadGenerationRequest as DownloadGenerationRequest
from easel_grpc.v1.generation_service_pb2 import DownloadGenerationResponse as DownloadGenerationResponse
from easel_grpc.v1.generation_service_pb2 import ContentChunk as ContentChunk
from easel_grpc.v1.generation_service_pb2 import ContentInfo as ContentInfo
from easel_grpc.v1.generation_service_pb2 import ContentSummary as ContentSummary
from easel_grpc.v1.generation_service_pb2 import DeleteGenerationRequest as DeleteGenerationRequest
from easel_grpc.v1.generation_service_pb2 import DeleteGenerationResponse as DeleteGenerationResponse
from easel_grpc.v1.generation_service_pb2_grpc import GenerationServiceServicer as GenerationServiceServicer
from easel_grpc.v1.generation_service_pb2_grpc import GenerationServiceStub as GenerationServiceStub
from easel_grpc.v1.generation_service_pb2_grpc import add_GenerationServiceServicer_to_server as add_GenerationServiceServicer_to_server
from easel_grpc.v1.model_pb2 import OutputKind as OutputKind
from easel_grpc.v1.model_pb2 import OUTPUT_KIND_UNSPECIFIED as OUTPUT_KIND_UNSPECIFIED
from easel_grpc.v1.model_pb2 import OUTPUT_KIND_FILE as OUTPUT_KIND_FILE
from easel_grpc.v1.model_pb2 import OUTPUT_KIND_TEXT as OUTPUT_KIND_TEXT
from easel_grpc.v1.model_pb2 import InputFieldType as InputFieldType
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_UNSPECIFIED as INPUT_FIELD_TYPE_UNSPECIFIED
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_STRING as INPUT_FIELD_TYPE_STRING
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_INTEGER as INPUT_FIELD_TYPE_INTEGER
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_NUMBER as INPUT_FIELD_TYPE_NUMBER
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_BOOLEAN as INPUT_FIELD_TYPE_BOOLEAN
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_OBJECT as INPUT_FIELD_TYPE_OBJECT
from easel_grpc.v1.model_pb2 import INPUT_FIELD_TYPE_ARRAY as INPUT_FIELD_TYPE_ARRAY
from easel_grpc.v1.model_pb2 import Model as Model
from easel_grpc.v1.model_pb2 import InputField as InputField
from easel_grpc.v1.model_service_pb2 import ListModelsRequest as ListModelsRequest
from easel_grpc.v1.model_service_pb2 import ListModelsResponse as ListModelsResponse
from easel_grpc.v1.model_service_pb2 import GetModelRequest as GetModelRequest
from easel_grpc.v1.model_service_pb2 import GetModelResponse as GetModelResponse
from easel_grpc.v1.model_service_pb2_grpc import ModelServiceServicer as ModelServiceServicer
from easel_grpc.v1.model_service_pb2_grpc import ModelServiceStub as ModelServiceStub
from easel_grpc.v1.model_service_pb2_grpc import add_ModelServiceServicer_to_server as add_ModelServiceServicer_to_server

# Automatic retries of a gRPC client: reads and orders on UNAVAILABLE, but no streams. For the channel option grpc.service_config.
SERVICE_CONFIG = """\
{
  "methodConfig": [
    {
      "name": [
        {"service": "easel.v1.AccountService", "method": "GetAccount"},
        {"service": "easel.v1.AccountService", "method": "ListUsage"},
        {"service": "easel.v1.ModelService", "method": "ListModels"},
        {"service": "easel.v1.ModelService", "method": "GetModel"},
        {"service": "easel.v1.GenerationService", "method": "QuoteGeneration"},
        {"service": "easel.v1.GenerationService", "method": "CreateGeneration"},
        {"service": "easel.v1.GenerationService", "method": "GetGeneration"},
        {"service": "easel.v1.GenerationService", "method": "ListGenerations"},
        {"service": "easel.v1.GenerationService", "method": "WaitGeneration"}
      ],
      "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.5s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"]
      }
    }
  ]
}
"""
