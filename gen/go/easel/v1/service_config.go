// Code generated from proto/easel/v1 by make generate. DO NOT EDIT.

package easelv1

// ServiceConfig is for grpc.WithDefaultServiceConfig. Automatic retries of a gRPC client: reads and orders on UNAVAILABLE, but no streams.
const ServiceConfig = `{
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
`
