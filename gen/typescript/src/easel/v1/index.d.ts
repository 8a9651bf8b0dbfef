// Code generated from proto/easel/v1 by make generate. DO NOT EDIT.
export * from "./account_pb.js";
export * from "./account_service_pb.js";
export * from "./error_pb.js";
export * from "./generation_pb.js";
export * from "./generation_service_pb.js";
export * from "./model_pb.js";
export * from "./model_service_pb.js";
/** Automatic retries of a gRPC client: reads and orders on UNAVAILABLE, but no streams. */
export declare const serviceConfig: {
  methodConfig: {
    name: { service: string; method: string }[];
    retryPolicy: {
      maxAttempts: number;
      initialBackoff: string;
      maxBackoff: string;
      backoffMultiplier: number;
      retryableStatusCodes: string[];
    };
  }[];
};
