# Code generated from proto/easel/v1 by make generate. DO NOT EDIT.
"""The contract of Easel: messages, enums, and a stub for each service."""

from easel.v1.account_pb2 import BudgetWindow as BudgetWindow
from easel.v1.account_pb2 import UsageDimension as UsageDimension
from easel.v1.account_pb2 import Account as Account
from easel.v1.account_pb2 import Budget as Budget
from easel.v1.account_pb2 import UsageRow as UsageRow
from easel.v1.account_service_pb2 import GetAccountRequest as GetAccountRequest
from easel.v1.account_service_pb2 import GetAccountResponse as GetAccountResponse
from easel.v1.account_service_pb2 import ListUsageRequest as ListUsageRequest
from easel.v1.account_service_pb2 import ListUsageResponse as ListUsageResponse
from easel.v1.account_service_pb2_grpc import AccountServiceServicer as AccountServiceServicer
from easel.v1.account_service_pb2_grpc import AccountServiceStub as AccountServiceStub
from easel.v1.account_service_pb2_grpc import add_AccountServiceServicer_to_server as add_AccountServiceServicer_to_server
from easel.v1.generation_pb2 import State as State
from easel.v1.generation_pb2 import Generation as Generation
from easel.v1.generation_pb2 import FileResult as FileResult
from easel.v1.generation_pb2 import TextResult as TextResult
from easel.v1.generation_pb2 import Quote as Quote
from easel.v1.generation_service_pb2 import WatchUntil as WatchUntil
from easel.v1.generation_service_pb2 import UpstreamCondition as UpstreamCondition
from easel.v1.generation_service_pb2 import StreamClosingReason as StreamClosingReason
from easel.v1.generation_service_pb2 import QuoteGenerationRequest as QuoteGenerationRequest
from easel.v1.generation_service_pb2 import QuoteGenerationResponse as QuoteGenerationResponse
from easel.v1.generation_service_pb2 import CreateGenerationRequest as CreateGenerationRequest
from easel.v1.generation_service_pb2 import CreateGenerationResponse as CreateGenerationResponse
from easel.v1.generation_service_pb2 import GetGenerationRequest as GetGenerationRequest
from easel.v1.generation_service_pb2 import GetGenerationResponse as GetGenerationResponse
from easel.v1.generation_service_pb2 import ListGenerationsRequest as ListGenerationsRequest
from easel.v1.generation_service_pb2 import GenerationFilter as GenerationFilter
from easel.v1.generation_service_pb2 import ListGenerationsResponse as ListGenerationsResponse
from easel.v1.generation_service_pb2 import WaitGenerationRequest as WaitGenerationRequest
from easel.v1.generation_service_pb2 import WaitGenerationResponse as WaitGenerationResponse
from easel.v1.generation_service_pb2 import WatchGenerationRequest as WatchGenerationRequest
from easel.v1.generation_service_pb2 import WatchGenerationResponse as WatchGenerationResponse
from easel.v1.generation_service_pb2 import GenerationUpdate as GenerationUpdate
from easel.v1.generation_service_pb2 import Heartbeat as Heartbeat
from easel.v1.generation_service_pb2 import StreamClosing as StreamClosing
from easel.v1.generation_service_pb2 import WatchGenerationsRequest as WatchGenerationsRequest
from easel.v1.generation_service_pb2 import WatchGenerationsResponse as WatchGenerationsResponse
from easel.v1.generation_service_pb2 import CaughtUp as CaughtUp
from easel.v1.generation_service_pb2 import DownloadGenerationRequest as DownloadGenerationRequest
from easel.v1.generation_service_pb2 import DownloadGenerationResponse as DownloadGenerationResponse
from easel.v1.generation_service_pb2 import ContentChunk as ContentChunk
from easel.v1.generation_service_pb2 import ContentInfo as ContentInfo
from easel.v1.generation_service_pb2 import ContentSummary as ContentSummary
from easel.v1.generation_service_pb2 import DeleteGenerationRequest as DeleteGenerationRequest
from easel.v1.generation_service_pb2 import DeleteGenerationResponse as DeleteGenerationResponse
from easel.v1.generation_service_pb2_grpc import GenerationServiceServicer as GenerationServiceServicer
from easel.v1.generation_service_pb2_grpc import GenerationServiceStub as GenerationServiceStub
from easel.v1.generation_service_pb2_grpc import add_GenerationServiceServicer_to_server as add_GenerationServiceServicer_to_server
from easel.v1.model_pb2 import OutputKind as OutputKind
from easel.v1.model_pb2 import InputFieldType as InputFieldType
from easel.v1.model_pb2 import Model as Model
from easel.v1.model_pb2 import InputField as InputField
from easel.v1.model_service_pb2 import ListModelsRequest as ListModelsRequest
from easel.v1.model_service_pb2 import ListModelsResponse as ListModelsResponse
from easel.v1.model_service_pb2 import GetModelRequest as GetModelRequest
from easel.v1.model_service_pb2 import GetModelResponse as GetModelResponse
from easel.v1.model_service_pb2_grpc import ModelServiceServicer as ModelServiceServicer
from easel.v1.model_service_pb2_grpc import ModelServiceStub as ModelServiceStub
from easel.v1.model_service_pb2_grpc import add_ModelServiceServicer_to_server as add_ModelServiceServicer_to_server

# What a gRPC client may retry by itself: reads and orders on UNAVAILABLE, and no streams. For the channel option grpc.service_config.
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
